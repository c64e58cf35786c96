//! The sliding log: so many in any window, exactly, by remembering when each was taken.

use std::collections::VecDeque;
use std::time::Duration;

use crate::quota::Quota;

/// The largest `limit` of a log: one entry is kept of each request.
pub const MOST_ENTRIES: u64 = 10_000;
/// The largest cost of one call.
pub const MOST_AT_ONCE: u64 = 1_000;

/// When each of the requests was taken that may still count, in the quota's ticks since 1970, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State(VecDeque<u64>);

impl State {
    /// Goes on after a clock that was further ahead than a second: what was taken after `now` is forgotten, so that as much may
    /// be admitted once more; in Redis, to rewrite up to ten thousand entries would hold up everybody. Returns whether there was
    /// anything to mend.
    pub(super) fn mend(&mut self, quota: &Quota, now: u64) -> bool {
        let newest = self.0.front().copied().unwrap_or(0);
        let wrong = newest.saturating_sub(now) > quota.tick().per_second();
        if wrong {
            let ahead = self.0.partition_point(|tick| *tick > now);
            self.0.drain(..ahead);
        }
        wrong
    }

    /// Adds what was found to fit at `now`, and forgets what counts no more.
    pub(super) fn take(&mut self, before: &Reading, cost: u64, now: u64) {
        let from = self.0.front().map_or(now, |newest| now.max(*newest));
        self.0
            .truncate(usize::try_from(before.count).unwrap_or(usize::MAX));
        for _ in 0..cost {
            self.0.push_front(from);
        }
    }

    /// When the newest was taken.
    pub(super) fn newest(&self) -> Option<u64> {
        self.0.front().copied()
    }

    /// Forgets so many of those that were taken at the tick `mark`. Returns whether any is left.
    pub(super) fn give_back(&mut self, cost: u64, mark: u64) -> bool {
        let mut back = cost;
        self.0.retain(|tick| {
            let goes = *tick == mark && back > 0;
            back -= u64::from(goes);
            !goes
        });
        !self.0.is_empty()
    }
}

/// What a log says at one moment to a call of one cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// How many requests count.
    pub count: u64,
    /// In how many ticks the newest of them counts no more.
    pub empty_in: u64,
    /// In how many ticks the cost fits that the log was asked for; 0 where it fits now.
    pub fits_in: u64,
}

impl Reading {
    /// Reads a log at `now`, in the quota's ticks. A clock that steps back by up to a second waits at the newest entry.
    pub(super) fn at(state: Option<&State>, quota: &Quota, cost: u64, now: u64) -> Self {
        let window = quota.window_ticks();
        let ticks = state.map(|state| &state.0);
        let newest = ticks.and_then(VecDeque::front).copied().unwrap_or(0);
        let disbelieved = newest.saturating_sub(now) > quota.tick().per_second();
        let from = if disbelieved { now } else { newest.max(now) };
        let ahead = ticks
            .filter(|_| disbelieved)
            .map_or(0, |ticks| ticks.partition_point(|tick| *tick > now));
        let tick = |i: u64| {
            let i = usize::try_from(i).ok()?;
            ticks?.get(ahead + i).map(|tick| from.min(*tick))
        };
        let count = ticks.map_or(0, |ticks| {
            ticks.partition_point(|tick| from.min(*tick) + window > from) - ahead
        });
        let count = count as u64;
        let leaves_in = |tick: u64| tick + window - now;
        // With this one gone there is room.
        let in_the_way = (count + cost > quota.limit()).then(|| quota.limit().saturating_sub(cost));
        Self {
            count,
            empty_in: tick(0).filter(|_| count > 0).map_or(0, leaves_in),
            fits_in: in_the_way.and_then(tick).map_or(0, leaves_in),
        }
    }

    pub(super) fn fits(&self, quota: &Quota, cost: u64) -> bool {
        self.count + cost <= quota.limit()
    }

    /// The log after the cost was taken.
    pub(super) fn spend(&mut self, quota: &Quota, cost: u64) {
        self.count += cost;
        // The newest is as far ahead of the clock as the one before it.
        self.empty_in = self.empty_in.max(quota.window_ticks());
    }

    pub(super) fn remaining(&self, quota: &Quota) -> u64 {
        quota.limit().saturating_sub(self.count)
    }

    pub(super) fn until_full(&self, quota: &Quota) -> Duration {
        quota.tick().duration(self.empty_in)
    }

    pub(super) fn wait(&self, quota: &Quota) -> Duration {
        quota.tick().duration(self.fits_in)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Algorithm;

    const S: u64 = 1_000_000;

    fn quota(limit: u64) -> Quota {
        Quota::new(Algorithm::SlidingLog, limit, None, 60).unwrap()
    }

    #[test]
    fn an_entry_counts_for_a_window_to_the_tick() {
        let state = State([160 * S, 130 * S, 101 * S].into());
        let at = |limit, cost, now| Reading::at(Some(&state), &quota(limit), cost, now);
        assert_eq!(at(3, 1, 161 * S - 1).count, 3);
        assert_eq!(at(3, 1, 161 * S).count, 2);
        // Of three the oldest must go for one more, all for three more.
        assert_eq!(at(3, 1, 160 * S).fits_in, S);
        assert_eq!(at(3, 3, 160 * S).fits_in, 60 * S);
        assert_eq!(at(4, 1, 160 * S).fits_in, 0);
        assert_eq!(at(4, 1, 160 * S).empty_in, 60 * S);
    }

    #[test]
    fn what_a_clock_far_ahead_took_is_forgotten_and_nothing_else() {
        let taken = [110 * S, 101 * S + 1, 100 * S, 50 * S];
        let at = |state: &State, now| Reading::at(Some(state), &quota(9), 1, now).count;
        let mut state = State(taken.into());
        // A second ahead is waited for.
        assert_eq!(at(&state, 109 * S), 3);
        assert!(!state.mend(&quota(9), 109 * S));
        assert_eq!(at(&state, 100 * S), 2);
        assert!(state.mend(&quota(9), 100 * S));
        assert_eq!(state, State([100 * S, 50 * S].into()));
        assert_eq!(at(&state, 100 * S), 2);
    }

    #[test]
    fn a_lowered_limit_forgets_nothing() {
        let state = State([3, 2, 1].into());
        let lowered = Reading::at(Some(&state), &quota(2), 1, 3);
        assert_eq!((lowered.count, lowered.remaining(&quota(2))), (3, 0));
        // Two must go.
        assert_eq!(lowered.fits_in, 2 + 60 * S - 3);
        assert_eq!(
            Reading::at(Some(&state), &quota(5), 1, 3).remaining(&quota(5)),
            2
        );
    }
}
