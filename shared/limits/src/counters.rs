//! Many buckets in this process, all or none: what the script does in Redis, plainly.

use std::num::NonZeroUsize;
use std::time::Duration;

use lru::LruCache;

use crate::algorithms::{Reading, State};
use crate::bucket::{Bucket, BucketName};

/// How long a bucket is kept beyond the moment when it is full, against clocks that differ.
const MARGIN: Duration = Duration::from_secs(60);

/// So many buckets are worth looking for what has expired.
const MANY: usize = 1024;

/// What a call does with its buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Takes from all of them, or from none.
    Take,
    /// Says what taking would find.
    Look,
    /// Takes what may have to be given back.
    Hold,
}

impl Operation {
    /// Whether it takes where there is room.
    pub fn takes(self) -> bool {
        match self {
            Operation::Take | Operation::Hold => true,
            Operation::Look => false,
        }
    }
}

/// What one bucket answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Whether there was room for the cost.
    pub room: bool,
    /// The bucket after the call: with the cost in it where it was taken.
    pub reading: Reading,
}

/// Whether a call passes: every bucket that is no shadow has room.
pub fn admitted(buckets: &[Bucket<'_>], answers: &[Answer]) -> bool {
    buckets
        .iter()
        .zip(answers)
        .all(|(bucket, answer)| bucket.shadow || answer.room)
}

/// Buckets by name, at most so many: the least recently asked go first.
#[derive(Debug)]
pub struct Counters {
    most: NonZeroUsize,
    // Without a bound of its own, for which it would set memory aside.
    buckets: LruCache<BucketName, Kept>,
    dropped: u64,
}

#[derive(Debug)]
struct Kept {
    state: State,
    expires_us: u64,
}

/// As many as a process may hold that counts for everyone.
impl Default for Counters {
    fn default() -> Self {
        Self::holding(NonZeroUsize::MIN.saturating_add(999_999))
    }
}

impl Counters {
    /// Counters that hold at most so many buckets. One that is dropped before its time is full again.
    pub fn holding(most: NonZeroUsize) -> Self {
        Self {
            most,
            buckets: LruCache::unbounded(),
            dropped: 0,
        }
    }

    /// Asks `buckets` at `now_us` (microseconds since 1970): an answer for each, in their order.
    pub fn ask(
        &mut self,
        operation: Operation,
        buckets: &[Bucket<'_>],
        now_us: u64,
    ) -> Vec<Answer> {
        let mut answers: Vec<Answer> = buckets
            .iter()
            .map(|bucket| self.read(operation, bucket, now_us))
            .collect();
        if operation.takes() && admitted(buckets, &answers) {
            for (bucket, answer) in buckets.iter().zip(&mut answers) {
                if answer.room {
                    self.take(bucket, answer, now_us);
                }
            }
        }
        answers
    }

    fn read(&mut self, operation: Operation, bucket: &Bucket<'_>, now_us: u64) -> Answer {
        let Bucket { quota, cost, .. } = *bucket;
        let now = quota.tick().at(now_us);
        let mut kept = self.buckets.get_mut(&bucket.name);
        if kept.as_ref().is_some_and(|kept| kept.expires_us <= now_us) {
            // What has expired is gone for good, whatever the clock does later.
            self.buckets.pop(&bucket.name);
            kept = None;
        }
        if operation.takes()
            && let Some(kept) = &mut kept
            && kept.state.mend(quota, now)
        {
            kept.expires_us = expiry(bucket, &kept.state, now_us);
        }
        let state = kept.as_ref().map(|kept| &kept.state);
        let reading = Reading::at(state, quota, cost, now);
        Answer {
            room: reading.fits(quota, cost),
            reading,
        }
    }

    fn take(&mut self, bucket: &Bucket<'_>, answer: &mut Answer, now_us: u64) {
        let Bucket { quota, cost, .. } = *bucket;
        let now = quota.tick().at(now_us);
        let mut state = self.buckets.pop(&bucket.name).map(|kept| kept.state);
        answer.reading.take(&mut state, quota, cost, now);
        let Some(state) = state else {
            return;
        };
        self.make_room(now_us);
        let expires_us = expiry(bucket, &state, now_us);
        self.buckets.put(bucket.name, Kept { state, expires_us });
    }

    /// Where there are many, drops what has expired of those that nobody has asked for longest, two for each that comes so that
    /// there are ever fewer of them; and whatever comes first where there are too many.
    fn make_room(&mut self, now_us: u64) {
        for _ in 0..2 {
            let oldest = self.buckets.peek_lru();
            let expired = oldest.is_some_and(|(_, kept)| kept.expires_us <= now_us);
            if (expired && self.buckets.len() >= MANY) || self.buckets.len() >= self.most.get() {
                self.buckets.pop_lru();
                self.dropped += u64::from(!expired);
            }
        }
    }

    /// Holds `buckets`: as [`Operation::Take`], and tells the mark of each take; none where nothing was taken.
    pub fn hold(&mut self, buckets: &[Bucket<'_>], now_us: u64) -> (Vec<Answer>, Vec<Option<u64>>) {
        let answers = self.ask(Operation::Hold, buckets, now_us);
        let taken = admitted(buckets, &answers);
        let mark = |(bucket, answer): (&Bucket<'_>, &Answer)| {
            let kept = self.buckets.peek(&bucket.name);
            let kept = kept.filter(|_| taken && answer.room);
            kept.and_then(|kept| kept.state.mark())
        };
        let marks = buckets.iter().zip(&answers).map(mark).collect();
        (answers, marks)
    }

    /// Gives back what a hold of `buckets` took, by its marks.
    pub fn give_back(&mut self, buckets: &[Bucket<'_>], marks: &[Option<u64>], now_us: u64) {
        for (bucket, mark) in buckets.iter().zip(marks) {
            let Some(mark) = *mark else { continue };
            // It was taken from just now: to give it back is no reason to keep it longer.
            let Some(kept) = self.buckets.peek_mut(&bucket.name) else {
                continue;
            };
            let now = bucket.quota.tick().at(now_us);
            let left = kept.state.give_back(bucket.quota, bucket.cost, mark, now);
            if !left || kept.expires_us <= now_us {
                self.buckets.pop(&bucket.name);
            }
        }
    }

    /// When a bucket is forgotten, in microseconds since 1970; none where it is not held.
    pub fn expires_us(&self, name: &BucketName) -> Option<u64> {
        self.buckets.peek(name).map(|kept| kept.expires_us)
    }

    /// How many buckets were dropped before their time since this was last asked: those who had them begin with full ones.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// How many buckets are held.
    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }
}

/// When a state no longer matters: when its bucket is full, and a margin later.
fn expiry(bucket: &Bucket<'_>, state: &State, now_us: u64) -> u64 {
    let now = bucket.quota.tick().at(now_us);
    let reading = Reading::at(Some(state), bucket.quota, bucket.cost, now);
    let keep = reading.until_full(bucket.quota) + MARGIN;
    now_us.saturating_add(u64::try_from(keep.as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::Owner;
    use crate::quota::Quota;
    use crate::rule::{Algorithm, Draft, Rule};
    use uuid::Uuid;

    fn bucket(id: u128, quota: &Quota, shadow: bool) -> Bucket<'_> {
        let rule = Rule::new(Uuid::from_u128(id), Draft::new("*", Some(1), 60)).unwrap();
        Bucket {
            lane: crate::Lane::SHARED,
            name: BucketName::new(Some(&rule), &Owner::All, quota),
            cost: quota.cost(1).unwrap(),
            quota,
            shadow,
        }
    }

    #[test]
    fn all_are_taken_or_none() {
        let (small, large) = (
            Quota::new(Algorithm::TokenBucket, 1, None, 60).unwrap(),
            Quota::new(Algorithm::TokenBucket, 9, None, 60).unwrap(),
        );
        let mut counters = Counters::default();
        let both = [bucket(1, &small, false), bucket(2, &large, false)];
        assert!(admitted(&both, &counters.ask(Operation::Take, &both, 0)));
        for _ in 0..20 {
            let answers = counters.ask(Operation::Take, &both, 0);
            assert!(!admitted(&both, &answers));
            assert_eq!((answers[0].room, answers[1].room), (false, true));
            assert_eq!(answers[1].reading.remaining(&large), 8);
        }
    }

    #[test]
    fn a_shadow_is_spent_where_it_has_room_and_stops_nothing() {
        let (small, large) = (
            Quota::new(Algorithm::TokenBucket, 1, None, 60).unwrap(),
            Quota::new(Algorithm::TokenBucket, 2, None, 60).unwrap(),
        );
        let mut counters = Counters::default();
        let call = [bucket(1, &large, false), bucket(2, &small, true)];
        let rooms = |answers: Vec<Answer>| [answers[0].room, answers[1].room];
        assert_eq!(rooms(counters.ask(Operation::Take, &call, 0)), [true, true]);
        assert_eq!(
            rooms(counters.ask(Operation::Take, &call, 0)),
            [true, false]
        );
        // Denied by the active one: the shadow that has refilled by then is not spent.
        let later = 60_000_000;
        assert_eq!(
            rooms(counters.ask(Operation::Take, &call, later)),
            [true, true]
        );
        let other = [bucket(1, &large, false)];
        counters.ask(Operation::Take, &other, later);
        assert_eq!(
            rooms(counters.ask(Operation::Take, &call, later)),
            [false, false]
        );
    }

    #[test]
    fn looking_spends_nothing_and_full_buckets_are_forgotten() {
        let quota = Quota::new(Algorithm::TokenBucket, 1, None, 1).unwrap();
        let mut counters = Counters::default();
        for id in 0..5000 {
            let one = [bucket(id, &quota, false)];
            counters.ask(Operation::Look, &one, 0);
            assert!(counters.is_empty() || id >= 1000);
            if id >= 1000 {
                counters.ask(
                    Operation::Take,
                    &one,
                    u64::try_from(id).unwrap() * 1_000_000,
                );
            }
        }
        assert!(counters.len() <= MANY, "{}", counters.len());
    }

    #[test]
    fn the_bucket_that_nobody_has_asked_for_longest_goes_first() {
        let quota = Quota::new(Algorithm::TokenBucket, 1, None, 3600).unwrap();
        let mut counters = Counters::holding(NonZeroUsize::new(3).unwrap());
        let mut room = |operation, id| {
            let answers = counters.ask(operation, &[bucket(id, &quota, false)], 0);
            assert!(counters.len() <= 3);
            answers[0].room
        };
        for id in 1..=3 {
            assert!(room(Operation::Take, id));
        }
        // To look is to ask, and so is to be denied.
        assert!(!room(Operation::Look, 1) && !room(Operation::Take, 2));
        assert!(room(Operation::Take, 4));
        for id in [1, 2, 4] {
            assert!(!room(Operation::Look, id), "{id}");
        }
        assert!(room(Operation::Look, 3));
    }

    #[test]
    fn a_call_is_counted_in_all_of_its_buckets_though_there_is_no_room_for_them() {
        let quota = Quota::new(Algorithm::TokenBucket, 1, None, 3600).unwrap();
        let mut counters = Counters::holding(NonZeroUsize::MIN);
        let both = [bucket(1, &quota, false), bucket(2, &quota, false)];
        assert!(admitted(&both, &counters.ask(Operation::Take, &both, 0)));
        let answers = counters.ask(Operation::Take, &both, 0);
        assert_eq!((answers[0].room, answers[1].room), (true, false));
        assert_eq!(counters.len(), 1);
    }
}
