//! Faults of a rule in the words of a form that calls its fields otherwise.

use limits::Fault;
use limits_postgres::{Refusal, WriteError};

/// A rule's fields, each with what a form calls it. One that is not listed has the same name in both.
pub(super) struct Wording(pub(super) &'static [(&'static str, &'static str)]);

impl Wording {
    pub(super) fn of_faults(&self, mut faults: Vec<Fault>) -> Vec<Fault> {
        for fault in &mut faults {
            if let Some((_, own)) = self.0.iter().find(|(field, _)| *field == fault.field) {
                fault.field = (*own).to_owned();
            }
        }
        faults
    }

    pub(super) fn of_error(&self, error: WriteError) -> WriteError {
        match error {
            WriteError::Refused(Refusal::Faults(faults)) => {
                Refusal::Faults(self.of_faults(faults)).into()
            }
            error => error,
        }
    }
}
