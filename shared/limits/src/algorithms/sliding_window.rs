//! The sliding window: an estimate over two windows aligned to UTC.
//!
//! What the window before counted weighs as much as is left of this one: `previous·(window − elapsed)/window + current`. All in
//! ticks, so that nothing is divided: `previous·left + (current + cost)·window ≤ limit·window`.

use std::time::Duration;

use crate::quota::Quota;

/// What is kept of two windows. None is kept where nothing was counted in either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// When the second window began, in the quota's ticks since 1970: a multiple of the window.
    pub start: u64,
    /// How many requests the window before it has counted.
    pub previous: u64,
    /// How many requests it has counted itself.
    pub current: u64,
}

impl State {
    /// The state from which counting goes on after a clock that was further ahead than a second: what it counted belongs to the
    /// window of `now`. None where there is nothing to mend.
    pub(super) fn mended(self, quota: &Quota, now: u64) -> Option<Self> {
        super::mended_start(self.start, quota, now).map(|start| Self { start, ..self })
    }

    /// Gives back `cost`, which the window that began at `mark` has counted: it may be the one before by now. Returns whether
    /// anything is left.
    pub(super) fn give_back(&mut self, quota: &Quota, cost: u64, mark: u64) -> bool {
        if self.start == mark {
            self.current = self.current.saturating_sub(cost);
        } else if self.start == mark + quota.window_ticks() {
            self.previous = self.previous.saturating_sub(cost);
        }
        self.previous + self.current > 0
    }
}

/// What two windows say at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// How many requests the window before this one has counted.
    pub previous: u64,
    /// How many requests this one has counted.
    pub current: u64,
    /// How many ticks are left of it.
    pub left: u64,
    /// By how many ticks its beginning is ahead of the clock: nothing moves until they are over.
    pub ahead: u64,
}

impl Reading {
    /// Reads both windows at `now`, in the quota's ticks. A clock that steps back over the beginning of the second by up to a
    /// second waits there.
    pub(super) fn at(state: Option<State>, quota: &Quota, now: u64) -> Self {
        let window = quota.window_ticks();
        let state = state.map(|state| state.mended(quota, now).unwrap_or(state));
        let from = state.map_or(now, |state| state.start.max(now));
        let this = from - from % window;
        let (previous, current) = match state {
            Some(state) if state.start == this => (state.previous, state.current),
            Some(state) if state.start + window == this => (state.current, 0),
            _ => (0, 0),
        };
        Self {
            previous,
            current,
            left: this + window - from,
            ahead: from - now,
        }
    }

    /// What is counted, in requests times the window.
    fn level(&self, quota: &Quota) -> u64 {
        self.previous * self.left + self.current * quota.window_ticks()
    }

    pub(super) fn fits(&self, quota: &Quota, cost: u64) -> bool {
        let window = quota.window_ticks();
        self.level(quota) + cost * window <= quota.limit() * window
    }

    /// The state of the windows that were read at `now`.
    pub(super) fn state(&self, quota: &Quota, now: u64) -> State {
        State {
            start: now + self.ahead + self.left - quota.window_ticks(),
            previous: self.previous,
            current: self.current,
        }
    }

    pub(super) fn remaining(&self, quota: &Quota) -> u64 {
        let window = quota.window_ticks();
        (quota.limit() * window).saturating_sub(self.level(quota)) / window
    }

    /// Until the last window that counted anything weighs nothing any more.
    pub(super) fn until_full(&self, quota: &Quota) -> Duration {
        let ticks = match (self.previous, self.current) {
            (0, 0) => 0,
            (_, 0) => self.ahead + self.left,
            _ => self.ahead + self.left + quota.window_ticks(),
        };
        quota.tick().duration(ticks)
    }

    /// The estimate only falls while nothing is taken, and does not jump where a window ends; so the first tick at which the
    /// cost fits is where the line crosses, in this window if the previous one alone is in the way, else in the next.
    pub(super) fn wait(&self, quota: &Quota, cost: u64) -> Duration {
        if self.fits(quota, cost) {
            return Duration::ZERO;
        }
        let window = quota.window_ticks();
        let room = quota.limit().saturating_sub(cost);
        let ticks = match room.checked_sub(self.current) {
            // previous·(left − t) ≤ (room − current)·window
            Some(free) => (self.previous * self.left - free * window).div_ceil(self.previous),
            // The next window: current·(window − t) ≤ room·window
            None => self.left + ((self.current - room) * window).div_ceil(self.current),
        };
        quota.tick().duration(self.ahead + ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Algorithm;

    fn quota(limit: u64) -> Quota {
        Quota::new(Algorithm::SlidingWindow, limit, None, 60).unwrap()
    }

    #[test]
    fn a_hundred_before_and_eighty_now_a_third_into_the_minute_are_146_and_two_thirds() {
        let state = State {
            start: 600_000_000,
            previous: 100,
            current: 80,
        };
        let at = |limit| Reading::at(Some(state), &quota(limit), 620_000_000);
        assert_eq!(at(147).level(&quota(147)) * 3, 440 * 60_000_000);
        for (limit, fits, remaining) in [
            (120, false, 0),
            (147, false, 0),
            (148, true, 1),
            (200, true, 53),
        ] {
            let quota = quota(limit);
            assert_eq!(at(limit).fits(&quota, 1), fits, "{limit}");
            assert_eq!(at(limit).remaining(&quota), remaining, "{limit}");
        }
    }

    #[test]
    fn one_waits_until_the_line_crosses_and_no_tick_longer() {
        let state = State {
            start: 600_000_000,
            previous: 100,
            current: 80,
        };
        for (limit, cost, waits_us) in [
            // 100·(40 − t)/60 + 81 ≤ 120: t = 16.6 s.
            (120, 1, 16_600_000),
            // 80·(60 − t)/60 + 50 ≤ 100: the 40 s that are left, and 22.5 s.
            (100, 50, 62_500_000),
            // Only when nothing weighs any more.
            (50, 50, 100_000_000),
        ] {
            let quota = quota(limit);
            let at = |now| Reading::at(Some(state), &quota, now);
            let wait = at(620_000_000).wait(&quota, cost);
            assert_eq!(wait, Duration::from_micros(waits_us));
            assert!(at(620_000_000 + waits_us).fits(&quota, cost));
            assert!(!at(620_000_000 + waits_us - 1).fits(&quota, cost));
        }
    }
}
