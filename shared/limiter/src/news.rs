//! What a log line tells of once a minute at most, since a line for each request would drown all others.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use limits::Moment;

/// How often it is told of at most.
const QUIET: Duration = Duration::from_secs(60);

/// When something was last told of.
#[derive(Debug, Default)]
pub(crate) struct News(Mutex<Option<Moment>>);

impl News {
    /// Whether it is to be told of now, by whoever asks.
    pub(crate) fn is_due(&self) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = told.is_none_or(|at| at.elapsed() >= QUIET);
        if due {
            *told = Some(Moment::now());
        }
        due
    }
}
