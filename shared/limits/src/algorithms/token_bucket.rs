//! The token bucket: a level that drains evenly and takes as much as fits. The leaky bucket is the same with less room.

use std::time::Duration;

use crate::quota::Quota;

/// What is kept of a bucket. None is kept of a full one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// What has been taken and has not come back, as of `tick`.
    pub level: u64,
    /// When that was, in the quota's ticks since 1970.
    pub tick: u64,
}

impl State {
    /// The state from which a bucket goes on whose clock was further ahead than a second: that clock was wrong. None where there
    /// is nothing to mend.
    pub(super) fn mended(self, quota: &Quota, now: u64) -> Option<Self> {
        let ahead = self.tick.checked_sub(now)?;
        (ahead > quota.tick().per_second()).then_some(Self {
            level: self.level,
            tick: now,
        })
    }

    /// Gives back `cost`, which was taken at the tick `mark`. Returns whether anything is left.
    ///
    /// Where nothing was taken at a later tick, the bucket is then as if this had never been taken: within a tick nothing drains,
    /// so the order of what is taken in it does not matter. Else what has drained since stays away, `cost − limit·(now − mark)`
    /// comes back, and this never admits more than if nothing had been held. Proof: let `d` be by how much the level is above the
    /// one that it would have had, and `s` the sum of what all open holds would still give back. A hold adds its cost to both.
    /// Draining lowers `d` by at most `limit` a tick, and only while the other level is 0; as long as `s > 0` it falls by at least
    /// as much. To give back takes the same from both. So `d ≥ s ≥ 0` always. What is lost is at most `min(cost, limit·held)`.
    pub(super) fn give_back(&mut self, quota: &Quota, cost: u64, mark: u64, now: u64) -> bool {
        let (mut after, mut back) = (*self, cost);
        if self.tick != mark {
            after.tick = self.tick.max(now);
            let drained = (after.tick - self.tick).saturating_mul(quota.limit());
            after.level = self.level.saturating_sub(drained);
            let held = after.tick.saturating_sub(mark);
            back = cost.saturating_sub(held.saturating_mul(quota.limit()));
        }
        if back > 0 {
            after.level = after.level.saturating_sub(back);
            *self = after;
        }
        self.level > 0
    }
}

/// What a bucket says at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// What has been taken and has not come back.
    pub level: u64,
    /// By how many ticks the bucket's own clock is ahead: it gives nothing back until they are over.
    pub ahead: u64,
}

impl Reading {
    /// A full bucket.
    pub(super) const FULL: Reading = Reading { level: 0, ahead: 0 };

    /// Reads a bucket at `now`, in the quota's ticks. A clock that steps back by up to a second does not move the bucket; one
    /// that was further ahead is disbelieved, and the bucket goes on from now.
    pub(super) fn at(state: Option<State>, quota: &Quota, now: u64) -> Self {
        let Some(state) = state else {
            return Self::FULL;
        };
        let State { level, tick } = state.mended(quota, now).unwrap_or(state);
        match now.checked_sub(tick) {
            Some(elapsed) => Self {
                level: level.saturating_sub(elapsed.saturating_mul(quota.limit())),
                ahead: 0,
            },
            None => Self {
                level,
                ahead: tick - now,
            },
        }
    }

    pub(super) fn fits(&self, quota: &Quota, cost: u64) -> bool {
        self.level + cost <= quota.capacity()
    }

    /// The state of the bucket that was read at `now`.
    pub(super) fn state(&self, now: u64) -> State {
        State {
            level: self.level,
            tick: now + self.ahead,
        }
    }

    pub(super) fn remaining(&self, quota: &Quota) -> u64 {
        // A limit that was lowered leaves more in the bucket than it now holds.
        let room = quota.capacity().saturating_sub(self.level);
        (room / quota.window_ticks()).min(quota.limit())
    }

    pub(super) fn until_full(&self, quota: &Quota) -> Duration {
        self.until_drained(quota, self.level)
    }

    /// `ceil((level + cost − capacity) / limit)` ticks.
    pub(super) fn wait(&self, quota: &Quota, cost: u64) -> Duration {
        self.until_drained(quota, (self.level + cost).saturating_sub(quota.capacity()))
    }

    fn until_drained(&self, quota: &Quota, units: u64) -> Duration {
        let ticks = if units == 0 {
            0
        } else {
            self.ahead + units.div_ceil(quota.limit())
        };
        quota.tick().duration(ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Algorithm;

    fn quota(limit: u64, burst: u64, window: u64) -> Quota {
        Quota::new(Algorithm::TokenBucket, limit, Some(burst), window).unwrap()
    }

    #[test]
    fn a_token_suffices_at_exactly_one() {
        // One each 2 s: after 2 s to the microsecond it passes, one microsecond earlier it does not.
        let quota = quota(1, 1, 2);
        let cost = quota.cost(1).unwrap();
        let taken = Reading {
            level: cost,
            ..Reading::FULL
        };
        let state = taken.state(5_000_000);
        assert_eq!(taken.wait(&quota, cost), Duration::from_secs(2));
        let early = Reading::at(Some(state), &quota, 6_999_999);
        assert!(!early.fits(&quota, cost));
        assert_eq!(early.wait(&quota, cost), Duration::from_micros(1));
        assert!(Reading::at(Some(state), &quota, 7_000_000).fits(&quota, cost));
    }

    #[test]
    fn a_raised_limit_lets_the_difference_through_at_once() {
        let (old, new) = (quota(10, 10, 60), quota(20, 20, 60));
        let state = State {
            level: old.capacity(),
            tick: 9,
        };
        let reading = Reading::at(Some(state), &new, 9);
        assert_eq!(reading.remaining(&new), 10);
        assert_eq!(
            Reading::at(Some(state), &quota(5, 5, 60), 9).remaining(&quota(5, 5, 60)),
            0
        );
    }

    #[test]
    fn a_clock_a_little_behind_adds_to_the_wait_and_one_far_behind_is_believed() {
        let quota = quota(1, 1, 1);
        let cost = quota.cost(1).unwrap();
        let state = State {
            level: quota.capacity(),
            tick: 10_000_000,
        };
        let little = Reading::at(Some(state), &quota, 9_500_000);
        assert_eq!(little.wait(&quota, cost), Duration::from_millis(1500));
        let far = Reading::at(Some(state), &quota, 1_000_000);
        assert_eq!(far.wait(&quota, cost), Duration::from_secs(1));
    }
}
