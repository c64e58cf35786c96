//! Leaving a node alone after a failure.
//!
//! A node that does not answer is asked by one call in each pause; everyone else is told at once that there is no answer. The
//! pauses grow, and each is a random share of what it may be, so that a thousand containers that failed in the same instant do not
//! come back in one.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use limits::moment::Moment;

/// What the first pause may be. Each that follows may be twice the last.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// What no pause is longer than.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How long a failure is remembered of a node that nobody tries any more.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Whether a node is asked at all.
#[derive(Debug, Default)]
pub(crate) struct Breaker(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Failures in a row, of the calls that tried whether it answers.
    failures: u32,
    /// When the last of them was, and how long the pause after it is.
    pause: Option<(Moment, Duration)>,
    probing: bool,
}

/// How a node stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It answers, or nobody has asked.
    Sound,
    /// It failed, and is left alone.
    Resting,
    /// It failed, and the next call tries whether it answers.
    Due,
}

impl State {
    /// Whether a node that failed is left alone: until its pause is over, and while somebody tries.
    fn is_resting(&self) -> bool {
        // By whichever clock has gone further: a pause is never made longer by a freeze.
        let over = |(since, pause): (Moment, Duration)| since.elapsed() >= pause;
        self.probing || !self.pause.is_none_or(over)
    }
}

/// What the outcome of a call changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing that anybody would want to know.
    Nothing,
    /// The node is left alone from here on.
    Opened,
    /// The node answers again.
    Closed,
}

impl Breaker {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a call through: any while all is well, one in each pause else.
    pub(crate) fn admit(&self) -> Option<Admitted<'_>> {
        let mut state = self.state();
        let probe = state.failures > 0;
        if probe {
            if state.is_resting() {
                return None;
            }
            state.probing = true;
        }
        Some(Admitted {
            breaker: self,
            probe,
        })
    }

    /// Whether the last that is known of the node is a failure, and if so, whether it is to be left alone still.
    pub(crate) fn standing(&self) -> Standing {
        let state = self.state();
        match state.failures {
            0 => Standing::Sound,
            _ if state.is_resting() => Standing::Resting,
            _ => Standing::Due,
        }
    }

    /// Whether the last that tried failed, within a minute.
    pub(crate) fn is_open(&self) -> bool {
        let pause = self.state().pause;
        pause.is_some_and(|(since, _)| since.elapsed() < REMEMBERED)
    }

    /// Notes a failure that no call of its own showed.
    pub(crate) fn open(&self) -> Change {
        self.fail(self.state())
    }

    fn fail(&self, mut state: MutexGuard<'_, State>) -> Change {
        state.failures = state.failures.saturating_add(1);
        let most = FIRST_PAUSE.saturating_mul(1 << (state.failures - 1).min(10));
        let most = most.min(LONGEST_PAUSE);
        state.pause = Some((Moment::now(), most.mul_f64(fastrand::f64())));
        match state.failures {
            1 => Change::Opened,
            _ => Change::Nothing,
        }
    }
}

/// A call that was let through, and whose outcome is to be told. One that is given up tells nothing.
#[derive(Debug)]
pub(crate) struct Admitted<'a> {
    breaker: &'a Breaker,
    probe: bool,
}

impl Admitted<'_> {
    /// The node answered.
    pub(crate) fn succeeded(self) -> Change {
        let mut state = self.breaker.state();
        let open = state.failures > 0;
        state.failures = 0;
        state.pause = None;
        if open {
            Change::Closed
        } else {
            Change::Nothing
        }
    }

    /// It did not. Of all that were on their way when it fell silent, one counts.
    pub(crate) fn failed(self) -> Change {
        let state = self.breaker.state();
        if state.failures > 0 && !self.probe {
            return Change::Nothing;
        }
        self.breaker.fail(state)
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        if self.probe {
            self.breaker.state().probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets the pause of a breaker be over.
    fn wait(breaker: &Breaker) {
        breaker.state().pause = None;
    }

    #[test]
    fn after_a_failure_one_call_in_each_pause_tries() {
        let breaker = Breaker::default();
        let (first, second) = (breaker.admit().unwrap(), breaker.admit().unwrap());
        assert_eq!(first.failed(), Change::Opened);
        // It was on its way already: no failure of its own.
        assert_eq!(second.failed(), Change::Nothing);
        assert_eq!(breaker.state().failures, 1);
        breaker.state().pause = Some((Moment::now(), LONGEST_PAUSE));
        assert!(breaker.admit().is_none());
        wait(&breaker);
        let probe = breaker.admit().unwrap();
        assert!(breaker.admit().is_none());
        assert_eq!(probe.failed(), Change::Nothing);
        wait(&breaker);
        assert_eq!(breaker.admit().unwrap().succeeded(), Change::Closed);
        assert!(breaker.admit().is_some() && breaker.admit().is_some());
    }

    #[test]
    fn a_probe_that_is_given_up_lets_another_try() {
        let breaker = Breaker::default();
        breaker.open();
        wait(&breaker);
        drop(breaker.admit().unwrap());
        assert!(breaker.admit().is_some());
    }

    #[test]
    fn pauses_grow_to_five_seconds_and_are_spread_over_all_they_may_be() {
        let longest_of = |failures: u32| {
            let pauses = (0..300).map(|_| {
                let breaker = Breaker::default();
                breaker.state().failures = failures;
                breaker.open();
                breaker.state().pause.unwrap().1
            });
            let pauses: Vec<Duration> = pauses.collect();
            let longest = pauses.iter().max().copied().unwrap();
            // Of three hundred some lie in the lowest tenth, or they were not drawn from all of it.
            assert!(pauses.iter().any(|pause| *pause < longest / 10));
            longest
        };
        assert!(longest_of(0) <= FIRST_PAUSE && longest_of(0) > FIRST_PAUSE / 2);
        assert!(longest_of(3) <= FIRST_PAUSE * 8 && longest_of(3) > FIRST_PAUSE * 4);
        for many in [7, 20, 1000, u32::MAX - 1] {
            assert!(longest_of(many) <= LONGEST_PAUSE && longest_of(many) > LONGEST_PAUSE / 2);
        }
    }
}
