//! What is given out at a rate.

use crate::costs::{Ns, S};

/// What is given out at a rate, and of which so much is kept at most.
#[derive(Debug, Clone, Default)]
pub(super) struct Tokens {
    pub(super) left: f64,
    pub(super) at: Ns,
}

impl Tokens {
    /// Takes one; where there is none, in what time there will be.
    pub(super) fn take(&mut self, now: Ns, per_second: f64, most: f64) -> Result<(), Ns> {
        self.left += (now - self.at) as f64 / S as f64 * per_second;
        (self.left, self.at) = (self.left.min(most), now);
        if self.left < 1.0 {
            return Err(((1.0 - self.left) / per_second * S as f64) as Ns);
        }
        self.left -= 1.0;
        Ok(())
    }
}
