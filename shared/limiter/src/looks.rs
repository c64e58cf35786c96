//! Looks at lanes that serve requests which touch no bucket.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use limits::lane::LANES;
use limits::{Lane, Moment};

/// For how long a look serves.
const LOOK_LASTS: Duration = Duration::from_secs(1);

/// When each lane was last found not to be newer than a view.
#[derive(Debug)]
pub(crate) struct Looks(Mutex<[Option<Look>; LANES]>);

#[derive(Debug, Clone, Copy)]
struct Look {
    stamp: u64,
    at: Moment,
}

impl Default for Looks {
    fn default() -> Self {
        Self(Mutex::new([None; LANES]))
    }
}

impl Looks {
    /// Whether a lane was looked at under this view less than a second ago, by both clocks.
    pub(crate) fn serve(&self, lane: Lane, stamp: u64) -> bool {
        let looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        looks[usize::from(lane.0)]
            .is_some_and(|look| look.stamp == stamp && look.at.elapsed() < LOOK_LASTS)
    }

    /// Remembers a look that was asked for `at` a moment.
    pub(crate) fn remember(&self, lane: Lane, stamp: u64, at: Moment) {
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        looks[usize::from(lane.0)] = Some(Look { stamp, at });
    }
}
