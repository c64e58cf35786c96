//! Who is known to be empty: denials that this container repeats by itself.
//!
//! A caller who is denied and goes on asking costs Redis one command a second, whatever he does. Nothing is denied here that Redis
//! would not have denied within that second: what could make room meanwhile, but time, are a change of rules and a reset, and
//! both may be a second late.

use std::hash::{BuildHasher, Hasher};
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws::metrics;
use foldhash::fast::RandomState;
use limits::counters::{Answer, admitted};
use limits::rule_set::MOST_MET;
use limits::{Bucket, BucketName, Moment};
use lru::LruCache;

/// For how long a denial is repeated at most, counted from before Redis was asked.
const LASTS: Duration = Duration::from_secs(1);

/// How many denials are kept; the least recently repeated go first.
const MOST_DENIALS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(4_095);

/// Denials by Redis, each of one set of buckets at one cost under one view.
#[derive(Debug)]
pub(crate) struct Denials {
    // By a hash of all that makes a question another one, so that to look for one allocates nothing.
    kept: Mutex<LruCache<u64, Denial>>,
    hashing: RandomState,
}

#[derive(Debug)]
struct Denial {
    stamp: u64,
    /// Shadows too: they deny nothing, but what is told of them is part of the answer.
    buckets: Box<[(BucketName, u64)]>,
    answers: Box<[Answer]>,
    asked: Moment,
    answered: Moment,
    /// For how long after `asked` it is repeated.
    lasts: Duration,
}

impl Default for Denials {
    fn default() -> Self {
        Self {
            // Without a bound of its own, for which it would set memory aside.
            kept: Mutex::new(LruCache::unbounded()),
            hashing: RandomState::default(),
        }
    }
}

impl Denials {
    /// What Redis answered to the very same question less than a second ago, where that was a denial and the longest of its waits
    /// is not over; and how long ago at least that was, which waits are shorter by.
    pub(crate) fn recall(
        &self,
        stamp: u64,
        buckets: &[Bucket<'_>],
    ) -> Option<(Vec<Answer>, Duration)> {
        self.recall_at(stamp, buckets, Moment::now)
    }

    fn recall_at(
        &self,
        stamp: u64,
        buckets: &[Bucket<'_>],
        now: impl FnOnce() -> Moment,
    ) -> Option<(Vec<Answer>, Duration)> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_empty() {
            return None;
        }
        let key = self.key(stamp, buckets);
        let denial = kept.get(&key)?;
        let same = denial.stamp == stamp
            && denial.buckets.len() == buckets.len()
            && denial
                .buckets
                .iter()
                .zip(buckets)
                .all(|((name, cost), bucket)| *name == bucket.name && *cost == bucket.cost);
        if !same {
            return None;
        }
        let now = now();
        if denial.asked.until(now) >= denial.lasts {
            kept.pop(&key);
            return None;
        }
        let since = denial.answered.at_least_until(now);
        Some((denial.answers.to_vec(), since))
    }

    /// Keeps what Redis answered, where it is a denial. `asked` is a moment before it was asked.
    pub(crate) fn note(
        &self,
        stamp: u64,
        buckets: &[Bucket<'_>],
        answers: &[Answer],
        asked: Moment,
    ) {
        if !admitted(buckets, answers) && buckets.len() <= MOST_MET {
            self.note_at(stamp, buckets, answers, [asked, Moment::now()]);
        }
    }

    fn note_at(
        &self,
        stamp: u64,
        buckets: &[Bucket<'_>],
        answers: &[Answer],
        [asked, answered]: [Moment; 2],
    ) {
        let each = buckets.iter().zip(answers);
        let waits = each
            .filter(|(bucket, answer)| !bucket.shadow && !answer.room)
            .map(|(bucket, answer)| answer.reading.wait(bucket.quota, bucket.cost));
        let denial = Denial {
            stamp,
            buckets: buckets
                .iter()
                .map(|bucket| (bucket.name, bucket.cost))
                .collect(),
            answers: answers.into(),
            asked,
            answered,
            lasts: waits.max().unwrap_or_default().min(LASTS),
        };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.put(self.key(stamp, buckets), denial);
        if kept.len() > MOST_DENIALS.get()
            && let Some((_, dropped)) = kept.pop_lru()
            && dropped.asked.until(answered) < dropped.lasts
        {
            metrics::CACHE_EVICTIONS.add(1);
        }
    }

    fn key(&self, stamp: u64, buckets: &[Bucket<'_>]) -> u64 {
        let mut hasher = self.hashing.build_hasher();
        hasher.write_u64(stamp);
        for bucket in buckets {
            hasher.write(bucket.name.as_str().as_bytes());
            hasher.write_u64(bucket.cost);
        }
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use limits::bucket::Owner;
    use limits::counters::{Counters, Operation};
    use limits::rule::{Algorithm, Draft};
    use limits::{Lane, Quota, Rule};
    use uuid::Uuid;

    use super::*;

    fn bucket(id: u128, quota: &Quota, tokens: u64) -> Bucket<'_> {
        let rule = Rule::new(Uuid::from_u128(id), Draft::new("*", Some(1), 60)).unwrap();
        Bucket {
            lane: Lane::SHARED,
            name: BucketName::new(Some(&rule), &Owner::All, quota),
            cost: quota.cost(tokens).unwrap(),
            quota,
            shadow: false,
        }
    }

    fn quota(seconds: u64) -> Quota {
        Quota::new(Algorithm::TokenBucket, 2, None, seconds).unwrap()
    }

    /// What empty buckets answer.
    fn denial(buckets: &[Bucket<'_>]) -> Vec<Answer> {
        let mut counters = Counters::default();
        for _ in 0..2 {
            counters.ask(Operation::Take, buckets, 0);
        }
        counters.ask(Operation::Take, buckets, 0)
    }

    #[test]
    fn only_the_very_same_question_is_answered() {
        let quota = quota(3_600);
        let buckets = [bucket(1, &quota, 1), bucket(2, &quota, 1)];
        let denials = Denials::default();
        assert!(denials.recall(7, &buckets).is_none());
        let answers = denial(&buckets);
        denials.note(7, &buckets, &answers, Moment::now());
        assert_eq!(denials.recall(7, &buckets).unwrap().0, answers);
        let [one, two] = buckets.clone();
        for (stamp, other) in [
            (8, vec![one.clone(), two.clone()]),
            (7, vec![one.clone()]),
            (7, vec![two.clone(), one.clone()]),
            (7, vec![one.clone(), bucket(2, &quota, 2)]),
            (7, vec![one.clone(), bucket(3, &quota, 1)]),
            (7, vec![one, two, bucket(3, &quota, 1)]),
        ] {
            assert!(denials.recall(stamp, &other).is_none());
        }
    }

    #[test]
    fn what_was_allowed_is_not_kept() {
        let quota = quota(3_600);
        let buckets = [bucket(1, &quota, 1)];
        let mut counters = Counters::default();
        let answers = counters.ask(Operation::Take, &buckets, 0);
        let denials = Denials::default();
        denials.note(7, &buckets, &answers, Moment::now());
        assert!(denials.recall(7, &buckets).is_none());
    }

    #[test]
    fn a_denial_is_repeated_for_a_second_by_both_clocks_and_no_longer_than_its_wait() {
        let ms = Duration::from_millis;
        let start = Moment::now();
        let later = |by: u64, wall_by: u64| Moment {
            at: start.at + ms(by),
            wall: start.wall + ms(wall_by),
        };
        // Half an hour for one, or half a second.
        for (seconds, by, wall_by, repeated) in [
            (3_600, 300, 300, true),
            (3_600, 999, 999, true),
            (3_600, 1_000, 999, false),
            (3_600, 999, 1_000, false),
            // Frozen for a day, of which only one clock knows.
            (3_600, 400, 86_400_000, false),
            (1, 499, 499, true),
            (1, 500, 499, false),
            (1, 499, 500, false),
        ] {
            let quota = quota(seconds);
            let buckets = [bucket(1, &quota, 1)];
            let denials = Denials::default();
            let answers = denial(&buckets);
            denials.note_at(7, &buckets, &answers, [start, later(200, 200)]);
            let recalled = denials.recall_at(7, &buckets, || later(by, wall_by));
            // What is told to wait is counted from when the answer came.
            let since = recalled.map(|(_, since)| since);
            assert_eq!(
                since,
                repeated.then(|| ms(by - 200)),
                "{seconds} {by} {wall_by}"
            );
        }
        // A clock that was set back: how long ago that was is not known.
        let quota = quota(3_600);
        let buckets = [bucket(1, &quota, 1)];
        let denials = Denials::default();
        denials.note_at(7, &buckets, &denial(&buckets), [start, start]);
        let mut back = start;
        back.wall -= ms(3_600_000);
        assert!(denials.recall_at(7, &buckets, || back).is_none());
    }

    #[test]
    fn no_number_of_denials_fills_the_container() {
        let quota = quota(3_600);
        let denials = Denials::default();
        let one = |id| [bucket(id, &quota, 1)];
        for id in 0..10_000 {
            denials.note(7, &one(id), &denial(&one(id)), Moment::now());
        }
        assert_eq!(denials.kept.lock().unwrap().len(), MOST_DENIALS.get());
    }
}
