//! Many buckets in this process, all or none: what the script does in Redis, plainly.

use std::time::Duration;

use foldhash::HashMap;

use crate::algorithms::{Reading, State};
use crate::bucket::{Bucket, BucketName};

/// How long a bucket is kept beyond the moment when it is full, against clocks that differ.
const MARGIN: Duration = Duration::from_secs(60);

/// What a call does with its buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Takes from all of them, or from none.
    Take,
    /// Says what taking would find.
    Look,
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

/// Buckets by name. Those that are full again are forgotten as the map grows.
#[derive(Debug, Default)]
pub struct Counters {
    buckets: HashMap<BucketName, Kept>,
    sweep_at: usize,
}

#[derive(Debug)]
struct Kept {
    state: State,
    expires_us: u64,
}

impl Counters {
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
        if operation == Operation::Take && admitted(buckets, &answers) {
            for (bucket, answer) in buckets.iter().zip(&mut answers) {
                if answer.room {
                    let now = bucket.quota.tick().at(now_us);
                    let mut state = self.buckets.remove(&bucket.name).map(|kept| kept.state);
                    let reading = &mut answer.reading;
                    reading.take(&mut state, bucket.quota, bucket.cost, now);
                    if let Some(state) = state {
                        self.keep(bucket, state, now_us);
                    }
                }
            }
        }
        answers
    }

    fn read(&mut self, operation: Operation, bucket: &Bucket<'_>, now_us: u64) -> Answer {
        let Bucket { quota, cost, .. } = *bucket;
        let now = quota.tick().at(now_us);
        // What has expired is gone for good, whatever the clock does later.
        let expired = |kept: &Kept| kept.expires_us <= now_us;
        if self.buckets.get(&bucket.name).is_some_and(expired) {
            self.buckets.remove(&bucket.name);
        }
        if operation == Operation::Take
            && let Some(mut kept) = self.buckets.remove(&bucket.name)
        {
            if kept.state.mend(quota, now) {
                self.keep(bucket, kept.state, now_us);
            } else {
                self.buckets.insert(bucket.name, kept);
            }
        }
        let state = self.buckets.get(&bucket.name).map(|kept| &kept.state);
        let reading = Reading::at(state, quota, cost, now);
        Answer {
            room: reading.fits(quota, cost),
            reading,
        }
    }

    fn keep(&mut self, bucket: &Bucket<'_>, state: State, now_us: u64) {
        if self.buckets.len() >= self.sweep_at {
            self.buckets.retain(|_, kept| kept.expires_us > now_us);
            self.sweep_at = (2 * self.buckets.len()).max(1024);
        }
        let now = bucket.quota.tick().at(now_us);
        let reading = Reading::at(Some(&state), bucket.quota, bucket.cost, now);
        let keep = reading.until_full(bucket.quota) + MARGIN;
        let keep_us = u64::try_from(keep.as_micros()).unwrap_or(u64::MAX);
        self.buckets.insert(
            bucket.name,
            Kept {
                state,
                expires_us: now_us.saturating_add(keep_us),
            },
        );
    }

    /// When a bucket is forgotten, in microseconds since 1970; none where it is not held.
    pub fn expires_us(&self, name: &BucketName) -> Option<u64> {
        self.buckets.get(name).map(|kept| kept.expires_us)
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
        assert!(counters.len() <= 1024, "{}", counters.len());
    }
}
