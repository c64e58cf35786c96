//! The fixed window: so many in each window aligned to UTC.

use std::time::Duration;

use crate::quota::Quota;

/// What is kept of a window. None is kept where nothing was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// When the window began, in the quota's ticks since 1970: a multiple of the window.
    pub start: u64,
    /// How many requests it has counted.
    pub count: u64,
}

impl State {
    /// The state from which counting goes on after a clock that was further ahead than a second: what it counted belongs to the
    /// window of `now`. None where there is nothing to mend.
    pub(super) fn mended(self, quota: &Quota, now: u64) -> Option<Self> {
        super::mended_start(self.start, quota, now).map(|start| Self { start, ..self })
    }

    /// Gives back `cost`, which the window that began at `mark` has counted. Returns whether anything is left.
    pub(super) fn give_back(&mut self, cost: u64, mark: u64) -> bool {
        if self.start == mark {
            self.count = self.count.saturating_sub(cost);
        }
        self.count > 0
    }
}

/// What a window says at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// How many requests it has counted.
    pub count: u64,
    /// In how many ticks it ends.
    pub left: u64,
}

impl Reading {
    /// Reads a window at `now`, in the quota's ticks. A clock that steps back over its beginning by up to a second stays in it.
    pub(super) fn at(state: Option<State>, quota: &Quota, now: u64) -> Self {
        let window = quota.window_ticks();
        let this = now - now % window;
        let state = state.map(|state| state.mended(quota, now).unwrap_or(state));
        match state.filter(|state| state.start >= this) {
            Some(State { start, count }) => Self {
                count,
                left: start + window - now,
            },
            None => Self {
                count: 0,
                left: this + window - now,
            },
        }
    }

    pub(super) fn fits(&self, quota: &Quota, cost: u64) -> bool {
        self.count + cost <= quota.limit()
    }

    /// The state of the window that was read at `now`.
    pub(super) fn state(&self, quota: &Quota, now: u64) -> State {
        State {
            start: now + self.left - quota.window_ticks(),
            count: self.count,
        }
    }

    pub(super) fn remaining(&self, quota: &Quota) -> u64 {
        quota.limit().saturating_sub(self.count)
    }

    pub(super) fn until_full(&self, quota: &Quota) -> Duration {
        quota
            .tick()
            .duration(if self.count == 0 { 0 } else { self.left })
    }

    pub(super) fn wait(&self, quota: &Quota, cost: u64) -> Duration {
        let ticks = if self.fits(quota, cost) { 0 } else { self.left };
        quota.tick().duration(ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Algorithm;

    #[test]
    fn a_window_ends_where_utc_does() {
        // 2026-11-30T01:02:03.5Z, in windows of a minute and of a day.
        let now_us = 1_796_000_523_500_000;
        let left = |window| {
            let quota = Quota::new(Algorithm::FixedWindow, 5, None, window).unwrap();
            let reading = Reading::at(None, &quota, quota.tick().at(now_us));
            quota.tick().duration(reading.left)
        };
        assert_eq!(left(60), Duration::from_millis(56_500));
        let hours = 22 * 3600 + 57 * 60 + 56;
        assert_eq!(left(86_400), Duration::from_millis(hours * 1000 + 500));
    }

    #[test]
    fn a_clock_a_little_behind_stays_in_the_window_and_one_far_behind_takes_its_count_along() {
        let quota = Quota::new(Algorithm::FixedWindow, 5, None, 60).unwrap();
        let state = Some(State {
            start: 120_000_000,
            count: 3,
        });
        let at = |now| Reading::at(state, &quota, now);
        assert_eq!(
            (at(119_500_000).count, at(119_500_000).left),
            (3, 60_500_000)
        );
        assert_eq!((at(70_000_000).count, at(70_000_000).left), (3, 50_000_000));
        assert_eq!(
            (at(180_000_000).count, at(180_000_000).left),
            (0, 60_000_000)
        );
    }
}
