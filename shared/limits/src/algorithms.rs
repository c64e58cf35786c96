//! How a bucket counts, one file an algorithm.
//!
//! Plain Rust beside the script: what runs in memory, and what judges the script in tests. All of them count in ticks of the
//! quota's clock ([`crate::Tick`]) and in its units of cost ([`Quota::cost`]), in integers.

pub mod fixed_window;
pub mod sliding_log;
pub mod sliding_window;
pub mod token_bucket;

use std::time::Duration;

use crate::quota::Quota;
use crate::rule::Algorithm;

/// What is kept of a bucket. None is kept of a full one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Of a token or leaky bucket.
    Bucket(token_bucket::State),
    /// Of a fixed window.
    Fixed(fixed_window::State),
    /// Of a sliding window.
    Sliding(sliding_window::State),
    /// Of a sliding log.
    Log(sliding_log::State),
}

impl State {
    /// Mends the state of a bucket whose clock was further ahead than a second, so that it goes on from `now`: that clock was
    /// wrong. A log forgets what it has taken after now. To be kept even where the call is denied, or its caller would wait until
    /// that time comes. Returns whether there was anything to mend.
    pub fn mend(&mut self, quota: &Quota, now: u64) -> bool {
        fn put<T>(state: &mut T, mended: Option<T>) -> bool {
            mended.map(|mended| *state = mended).is_some()
        }
        match self {
            State::Bucket(state) => put(state, state.mended(quota, now)),
            State::Fixed(state) => put(state, state.mended(quota, now)),
            State::Sliding(state) => put(state, state.mended(quota, now)),
            State::Log(state) => state.mend(quota, now),
        }
    }

    /// By what a take is known that was the last to write this state: the tick that it wrote, of a window its beginning.
    pub fn mark(&self) -> Option<u64> {
        match self {
            State::Bucket(state) => Some(state.tick),
            State::Fixed(state) => Some(state.start),
            State::Sliding(state) => Some(state.start),
            State::Log(state) => state.newest(),
        }
    }

    /// Gives back `cost`, which was taken with this mark: nothing where that is of another window by now, or has come back by
    /// itself. Never more is admitted afterwards than if it had not been taken. Returns whether anything is left to keep.
    pub fn give_back(&mut self, quota: &Quota, cost: u64, mark: u64, now: u64) -> bool {
        match self {
            State::Bucket(state) => state.give_back(quota, cost, mark, now),
            State::Fixed(state) => state.give_back(cost, mark),
            State::Sliding(state) => state.give_back(quota, cost, mark),
            State::Log(state) => state.give_back(cost, mark),
        }
    }
}

/// The window of `now` where `start` is that of a clock more than a second ahead.
fn mended_start(start: u64, quota: &Quota, now: u64) -> Option<u64> {
    let ahead = start.checked_sub(now)?;
    (ahead > quota.tick().per_second()).then(|| now - now % quota.window_ticks())
}

/// What a bucket says at one moment to a call of one cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// A token or leaky bucket.
    Bucket(token_bucket::Reading),
    /// A fixed window.
    Fixed(fixed_window::Reading),
    /// A sliding window.
    Sliding(sliding_window::Reading),
    /// A sliding log.
    Log(sliding_log::Reading),
}

/// The same of whichever algorithm.
macro_rules! each {
    ($reading:expr, $one:ident => $do:expr) => {
        match $reading {
            Reading::Bucket($one) => $do,
            Reading::Fixed($one) => $do,
            Reading::Sliding($one) => $do,
            Reading::Log($one) => $do,
        }
    };
}

impl Reading {
    /// Reads a bucket at `now`, in the quota's ticks, for a call of `cost`. A clock that steps back by up to a second does not
    /// move the bucket; one that was further ahead is disbelieved, and the bucket goes on from now.
    pub fn at(state: Option<&State>, quota: &Quota, cost: u64, now: u64) -> Self {
        // Every algorithm has names of its own: a state of another one is never found.
        macro_rules! own {
            ($kind:ident) => {
                state.and_then(|state| match state {
                    State::$kind(state) => Some(state),
                    _ => None,
                })
            };
        }
        match quota.algorithm() {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                Reading::Bucket(token_bucket::Reading::at(own!(Bucket).copied(), quota, now))
            }
            Algorithm::FixedWindow => {
                Reading::Fixed(fixed_window::Reading::at(own!(Fixed).copied(), quota, now))
            }
            Algorithm::SlidingWindow => Reading::Sliding(sliding_window::Reading::at(
                own!(Sliding).copied(),
                quota,
                now,
            )),
            Algorithm::SlidingLog => {
                Reading::Log(sliding_log::Reading::at(own!(Log), quota, cost, now))
            }
        }
    }

    /// Whether `cost` fits.
    pub fn fits(&self, quota: &Quota, cost: u64) -> bool {
        each!(self, one => one.fits(quota, cost))
    }

    /// The bucket with `cost` in it.
    pub fn spend(&mut self, quota: &Quota, cost: u64) {
        match self {
            Reading::Bucket(one) => one.level += cost,
            Reading::Fixed(one) => one.count += cost,
            Reading::Sliding(one) => one.current += cost,
            Reading::Log(one) => one.spend(quota, cost),
        }
    }

    /// Puts `cost`, which was found to fit at `now`, into the bucket and into what is kept of it.
    pub fn take(&mut self, state: &mut Option<State>, quota: &Quota, cost: u64, now: u64) {
        let before = *self;
        self.spend(quota, cost);
        *state = Some(match self {
            Reading::Bucket(one) => State::Bucket(one.state(now)),
            Reading::Fixed(one) => State::Fixed(one.state(quota, now)),
            Reading::Sliding(one) => State::Sliding(one.state(quota, now)),
            Reading::Log(_) => {
                let mut log = match state.take() {
                    Some(State::Log(log)) => log,
                    _ => sliding_log::State::default(),
                };
                if let Reading::Log(before) = before {
                    log.take(&before, cost, now);
                }
                State::Log(log)
            }
        });
    }

    /// Requests that would pass now, at most the limit.
    pub fn remaining(&self, quota: &Quota) -> u64 {
        each!(self, one => one.remaining(quota))
    }

    /// How long until nothing is counted any more: the bucket is full, or the last window that counted has ended.
    pub fn until_full(&self, quota: &Quota) -> Duration {
        each!(self, one => one.until_full(quota))
    }

    /// The least wait after which `cost` fits, nothing else being taken. Of a log only for the cost that it was read for.
    pub fn wait(&self, quota: &Quota, cost: u64) -> Duration {
        match self {
            Reading::Bucket(one) => one.wait(quota, cost),
            Reading::Fixed(one) => one.wait(quota, cost),
            Reading::Sliding(one) => one.wait(quota, cost),
            Reading::Log(one) => one.wait(quota),
        }
    }
}
