//! How much a bucket holds and how fast it gives back, in integers.
//!
//! A bucket holds time. Its **level** is what has been taken and has not yet come back, in ticks of the clock scaled by the
//! limit: one request of cost `c` adds `c·window`, and each tick gives back `limit`. So nothing rounds, and every product stays
//! below 2^52, which a double in the script holds exactly.

use std::time::Duration;

use crate::fields::Fault;
use crate::rule::Algorithm;

/// The largest product that may stand in a bucket: doubles are exact to 2^53, and one addition must fit.
pub const EXACT: u64 = 1 << 52;

/// The unit of a bucket's clock. It follows from the window alone, so that a change of limit or burst keeps the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tick {
    /// For windows to 60 s.
    Microsecond,
    /// For windows to a day.
    Millisecond,
    /// For longer ones.
    Second,
}

impl Tick {
    /// The tick of a window in seconds.
    pub fn of_window(seconds: u64) -> Self {
        match seconds {
            0..=60 => Tick::Microsecond,
            61..=86_400 => Tick::Millisecond,
            _ => Tick::Second,
        }
    }

    /// Ticks a second.
    pub fn per_second(self) -> u64 {
        match self {
            Tick::Microsecond => 1_000_000,
            Tick::Millisecond => 1_000,
            Tick::Second => 1,
        }
    }

    /// The tick in which a moment lies, given in microseconds since 1970.
    pub fn at(self, unix_us: u64) -> u64 {
        unix_us / (1_000_000 / self.per_second())
    }

    /// How long so many ticks are.
    pub fn duration(self, ticks: u64) -> Duration {
        Duration::from_micros(ticks.saturating_mul(1_000_000 / self.per_second()))
    }
}

/// What a bucket counts by.
///
/// Two rules of ten a second on average: `limit 10, window 1 s` lets a burst of 10 through and is full again after one second;
/// `limit 600, window 60 s` lets 600 through at once and needs a minute.
///
/// ```
/// use limits::{Quota, rule::Algorithm};
/// let quota = Quota::new(Algorithm::TokenBucket, 600, None, 60).unwrap();
/// assert_eq!(quota.burst(), 600);
/// assert_eq!(quota.window_ticks(), 60_000_000);
/// assert_eq!(quota.capacity(), 600 * 60_000_000);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    algorithm: Algorithm,
    limit: u64,
    burst: u64,
    window_seconds: u64,
}

impl Quota {
    /// A quota of `limit` requests in `window_seconds`.
    ///
    /// # Errors
    /// The field that makes it impossible to count exactly, and what would be right.
    pub fn new(
        algorithm: Algorithm,
        limit: u64,
        burst: Option<u64>,
        window_seconds: u64,
    ) -> Result<Self, Fault> {
        Self::check_algorithm(algorithm)?;
        let quota = Self {
            algorithm,
            limit,
            burst: burst.unwrap_or(limit),
            window_seconds,
        };
        let exact = |a: u64, b: u64| a.checked_mul(b).is_some_and(|product| product <= EXACT);
        if !exact(quota.burst, quota.window_ticks()) {
            let most = EXACT / quota.window_ticks();
            let field = if burst.is_some() { "burst" } else { "limit" };
            return Err(Fault::new(
                field,
                format!("must be at most {most} for this time_window, to be counted exactly"),
            ));
        }
        if !exact(quota.limit, quota.tick().per_second()) {
            let most = EXACT / quota.tick().per_second();
            return Err(Fault::new(
                "limit",
                format!("must be at most {most} for this time_window, to be counted exactly"),
            ));
        }
        Ok(quota)
    }

    /// # Errors
    /// Where the algorithm does not count yet.
    pub(crate) fn check_algorithm(algorithm: Algorithm) -> Result<(), Fault> {
        match algorithm {
            Algorithm::TokenBucket => Ok(()),
            other => Err(Fault::new(
                "algorithm",
                format!("must be token_bucket: {other} is not supported"),
            )),
        }
    }

    /// How it counts.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Requests a window; also what one tick gives back, in units of the level.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The most that can be taken at once, in requests.
    pub fn burst(&self) -> u64 {
        self.burst
    }

    /// The window in seconds.
    pub fn window_seconds(&self) -> u64 {
        self.window_seconds
    }

    /// The unit of its clock.
    pub fn tick(&self) -> Tick {
        Tick::of_window(self.window_seconds)
    }

    /// The window in ticks; also what one request adds to the level.
    pub fn window_ticks(&self) -> u64 {
        self.window_seconds * self.tick().per_second()
    }

    /// The level above which nothing more is taken.
    pub fn capacity(&self) -> u64 {
        self.burst * self.window_ticks()
    }

    /// What a request of so many tokens adds to the level; none where it could never fit.
    pub fn cost(&self, tokens: u64) -> Option<u64> {
        (tokens <= self.burst).then(|| tokens * self.window_ticks())
    }
}
