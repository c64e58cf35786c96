//! Answers by kind.

use std::{fmt, time::Duration};

use crate::chaos::{
    stage::REDIS_TIMEOUT,
    traffic::{Answer, Verdict},
};

/// Answers by kind.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) allowed: usize,
    pub(super) throttled: usize,
    pub(super) degraded: usize,
    pub(super) unauthorized: usize,
    pub(super) store_out: usize,
    pub(super) failed: usize,
    /// Later than the conversation with Redis may take.
    pub(super) slow: usize,
    pub(super) longest: Duration,
}

impl Tally {
    pub(super) fn add(&mut self, answer: &Answer) {
        let kind = match answer.verdict {
            Verdict::Allowed => &mut self.allowed,
            Verdict::Throttled => &mut self.throttled,
            Verdict::AllowedDegraded | Verdict::ThrottledDegraded => &mut self.degraded,
            Verdict::Unauthorized => &mut self.unauthorized,
            Verdict::StoreOut => &mut self.store_out,
            Verdict::Failed(_) => &mut self.failed,
        };
        *kind += 1;
        let took = answer.ended - answer.began;
        self.slow += usize::from(took > REDIS_TIMEOUT);
        self.longest = self.longest.max(took);
    }

    pub(super) fn count(&self) -> usize {
        let Self {
            allowed,
            throttled,
            degraded,
            unauthorized,
            store_out,
            failed,
            ..
        } = self;
        allowed + throttled + degraded + unauthorized + store_out + failed
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let longest = self.longest.as_secs_f64();
        write!(
            formatter,
            "{:>10}{:>10}{:>6}{:>6}{:>8}{:>6}{longest:>7.2} s",
            self.allowed,
            self.throttled,
            self.degraded,
            self.unauthorized,
            self.store_out,
            self.slow,
        )?;
        match self.failed {
            0 => Ok(()),
            failed => write!(formatter, " {failed} FAILED"),
        }
    }
}
