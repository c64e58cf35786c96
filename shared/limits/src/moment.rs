//! Now, by the clocks of this machine.
//!
//! A Lambda container is frozen between two invocations: its monotonic clock may stand still meanwhile, and its wall clock may be
//! set. So whatever is kept for a while there is kept by both.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A moment by both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// By the clock that nobody sets.
    pub at: Instant,
    /// By the clock that goes on while a container is frozen.
    pub wall: SystemTime,
}

impl Moment {
    /// This moment.
    pub fn now() -> Self {
        Self {
            at: Instant::now(),
            wall: SystemTime::now(),
        }
    }

    /// The most that can have passed since then: for whatever must not be kept for too long.
    pub fn elapsed(self) -> Duration {
        self.until(Self::now())
    }

    /// The most that can have passed from then until `later`, by the clock that saw more of it. Where the wall clock was set back,
    /// how much that is nobody knows: for ever.
    pub fn until(self, later: Self) -> Duration {
        let by_wall = later.wall.duration_since(self.wall);
        by_wall
            .unwrap_or(Duration::MAX)
            .max(later.at.saturating_duration_since(self.at))
    }

    /// The least that has passed from then until `later`, by the clock that saw less of it; nothing where the wall clock was set
    /// back. For whoever is told to wait for the rest.
    pub fn at_least_until(self, later: Self) -> Duration {
        let by_wall = later.wall.duration_since(self.wall);
        by_wall
            .unwrap_or_default()
            .min(later.at.saturating_duration_since(self.at))
    }
}

/// Microseconds since 1970 by the wall clock. One that stands before that is taken for that.
pub fn unix_us() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_clock_that_stood_still_or_was_set_back_makes_nothing_last_longer() {
        let start = Moment::now();
        let later = |at: Duration, wall: SystemTime| Moment {
            at: start.at + at,
            wall,
        };
        let frozen = later(SECOND, start.wall + HOUR);
        assert_eq!(start.until(frozen), HOUR);
        assert_eq!(start.at_least_until(frozen), SECOND);
        let set_back = later(SECOND, start.wall - HOUR);
        assert_eq!(start.until(set_back), Duration::MAX);
        assert_eq!(start.at_least_until(set_back), Duration::ZERO);
        let slow = later(HOUR, start.wall + SECOND);
        assert_eq!(start.until(slow), HOUR);
        assert_eq!(start.at_least_until(slow), SECOND);
    }
}
