//! How the program ends.

use std::process::ExitCode;

/// What scripts go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It was done; there is no difference; the call is allowed.
    Success,
    /// It could not be done.
    Error,
    /// `rules plan`: there is a difference.
    Difference,
    /// `check`: the call is blocked.
    Blocked,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Success => 0,
            Exit::Error => 1,
            Exit::Difference => 2,
            Exit::Blocked => 3,
        })
    }
}
