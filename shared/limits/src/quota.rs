//! How much a bucket holds and how fast it gives back, in integers.
//!
//! A token or leaky bucket holds time. Its **level** is what has been taken and has not yet come back, in ticks of the clock
//! scaled by the limit: one request of cost `c` adds `c·window`, and each tick gives back `limit`. So nothing rounds, and every
//! product stays below 2^52, which a double in the script holds exactly; so does the sliding window's `requests·window`.

use std::time::Duration;

use crate::algorithms::sliding_log::{MOST_AT_ONCE, MOST_ENTRIES};
use crate::fields::Fault;
use crate::rule::Algorithm;

/// The largest product that may stand in a bucket: doubles are exact to 2^53, and one addition must fit.
pub const EXACT: u64 = 1 << 52;

/// The most that one call may cost, in requests.
pub const MOST_TOKENS: u64 = 1_000_000;

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
        let (seconds, rest) = (ticks / self.per_second(), ticks % self.per_second());
        Duration::from_secs(seconds) + Duration::from_micros(rest * (1_000_000 / self.per_second()))
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
/// assert_eq!(quota.most_at_once(), 600);
/// assert_eq!(quota.window_ticks(), 60_000_000);
/// assert_eq!(quota.capacity(), 600 * 60_000_000);
/// let smooth = Quota::new(Algorithm::LeakyBucket, 600, None, 60).unwrap();
/// assert_eq!(smooth.most_at_once(), 1);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    algorithm: Algorithm,
    limit: u64,
    /// What a bucket holds in requests; of the window algorithms the limit.
    burst: u64,
    window_seconds: u64,
}

impl Quota {
    /// What one service may call another where no rule says so: 1,000 a second.
    pub const BETWEEN_SERVICES: Quota = Quota {
        algorithm: Algorithm::TokenBucket,
        limit: 1_000,
        burst: 1_000,
        window_seconds: 1,
    };

    /// A quota of `limit` requests in `window_seconds`. `burst` is of the token and leaky buckets alone: none follows the limit,
    /// or is 1.
    ///
    /// # Errors
    /// The field that makes it impossible to count exactly, and what would be right.
    pub fn new(
        algorithm: Algorithm,
        limit: u64,
        burst: Option<u64>,
        window_seconds: u64,
    ) -> Result<Self, Fault> {
        Self::check_burst(algorithm, burst)?;
        let quota = Self {
            algorithm,
            limit,
            burst: Self::burst_or_usual(algorithm, limit, burst),
            window_seconds,
        };
        let at_most = |field: &str, number: u64, most: u64, why: &str| {
            if number <= most {
                return Ok(());
            }
            Err(Fault::new(field, format!("must be at most {most} {why}")))
        };
        let exactly = "for this time_window, to be counted exactly";
        let (windows, ticks) = (
            EXACT / quota.window_ticks(),
            EXACT / quota.tick().per_second(),
        );
        match algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                let field = if burst.is_some() { "burst" } else { "limit" };
                at_most(field, quota.burst, windows, exactly)?;
                at_most("limit", limit, ticks, exactly)?;
            }
            Algorithm::SlidingWindow => at_most("limit", limit, windows, exactly)?,
            Algorithm::SlidingLog => at_most("limit", limit, MOST_ENTRIES, "for a sliding_log")?,
            Algorithm::FixedWindow => {}
        }
        Ok(quota)
    }

    /// # Errors
    /// Where there is a burst, and the algorithm has none.
    pub(crate) fn check_burst(algorithm: Algorithm, burst: Option<u64>) -> Result<(), Fault> {
        match algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => Ok(()),
            windows => match burst {
                None => Ok(()),
                Some(_) => {
                    let detail = format!("must be null: a {windows} has no burst");
                    Err(Fault::new("burst", detail))
                }
            },
        }
    }

    /// What a bucket of so many requests a window holds; of the window algorithms the limit.
    pub(crate) fn burst_or_usual(algorithm: Algorithm, limit: u64, burst: Option<u64>) -> u64 {
        match algorithm {
            Algorithm::TokenBucket => burst.unwrap_or(limit),
            Algorithm::LeakyBucket => burst.unwrap_or(1),
            Algorithm::FixedWindow | Algorithm::SlidingWindow | Algorithm::SlidingLog => limit,
        }
    }

    /// The part of that number, from 0, where it is divided among `split`. What can be counted exactly as a whole can be in parts,
    /// since none of their numbers is greater.
    pub(crate) fn part(&self, number: u64, split: u64) -> Self {
        let of = |whole: u64| whole / split + u64::from(number < whole % split);
        Self {
            limit: of(self.limit),
            burst: of(self.burst),
            ..self.clone()
        }
    }

    /// So many percent of it: of the limit and of the burst, each rounded down, and at least one request. Shares of at most 100
    /// percent together never admit more than the whole, save for what one request is more than its percentage.
    ///
    /// ```
    /// use limits::{Quota, rule::Algorithm};
    /// let quota = Quota::new(Algorithm::TokenBucket, 25, Some(1_000), 60).unwrap();
    /// assert_eq!(Ok(quota.percent(10)), Quota::new(Algorithm::TokenBucket, 2, Some(100), 60));
    /// assert_eq!(Ok(quota.percent(1)), Quota::new(Algorithm::TokenBucket, 1, Some(10), 60));
    /// ```
    pub fn percent(&self, percent: u64) -> Self {
        let of = |number: u64| (number * percent.min(100) / 100).max(1);
        Self {
            limit: of(self.limit),
            burst: of(self.burst),
            ..self.clone()
        }
    }

    /// The same in little memory: a log becomes a sliding window, since what is kept of it is not small.
    pub fn without_log(self) -> Self {
        let algorithm = match self.algorithm {
            Algorithm::SlidingLog => Algorithm::SlidingWindow,
            other => other,
        };
        Self { algorithm, ..self }
    }

    /// How it counts.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Requests a window; also what one tick gives back, in units of the level.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The most that one call may cost, in requests.
    pub fn most_at_once(&self) -> u64 {
        match self.algorithm {
            Algorithm::SlidingLog => self.limit.min(MOST_AT_ONCE),
            _ => self.burst,
        }
    }

    /// The window in seconds.
    pub fn window_seconds(&self) -> u64 {
        self.window_seconds
    }

    /// The unit of its clock.
    pub fn tick(&self) -> Tick {
        Tick::of_window(self.window_seconds)
    }

    /// The window in ticks; of a token or leaky bucket also what one request adds to the level.
    pub fn window_ticks(&self) -> u64 {
        self.window_seconds * self.tick().per_second()
    }

    /// The level of a token or leaky bucket above which nothing more is taken.
    pub fn capacity(&self) -> u64 {
        self.burst * self.window_ticks()
    }

    /// What a request of so many tokens costs in the algorithm's units: what it adds to the level of a token or leaky bucket, of
    /// the others the tokens themselves. None where it could never pass.
    pub fn cost(&self, tokens: u64) -> Option<u64> {
        let unit = match self.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => self.window_ticks(),
            Algorithm::FixedWindow | Algorithm::SlidingWindow | Algorithm::SlidingLog => 1,
        };
        (tokens <= self.most_at_once()).then(|| tokens * unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_services_may_call_one_another_is_a_quota_like_any_other() {
        let written = Quota::new(Algorithm::TokenBucket, 1_000, None, 1);
        assert_eq!(written, Ok(Quota::BETWEEN_SERVICES));
    }
}
