//! The API's no in the words of the file.

use limits::Fault;

use crate::api::Problem;
use crate::difference::Change;
use crate::rules_file::{FileFault, FileFaults, RulesFile};

/// Tells each fault with the line of what it is about.
pub(super) fn refused(
    file: &RulesFile,
    puts: &[&Change<'_>],
    deletions: &[&Change<'_>],
    problem: Problem,
) -> String {
    let mut faults = Vec::new();
    let mut rest = Vec::new();
    for fault in problem.errors {
        let (list, number, field) = match numbered(&fault.field) {
            Some(parts) => parts,
            None => {
                rest.push(fault);
                continue;
            }
        };
        let written = puts
            .get(number)
            .filter(|_| list == "upsert")
            .and_then(|change| change.written());
        let deleted = deletions.get(number).filter(|_| list == "delete");
        match (written, deleted) {
            (Some(written), _) => faults.push(FileFault {
                at: written.position(field),
                field: field.to_owned(),
                detail: fault.detail,
            }),
            (None, Some(change)) => {
                rest.push(Fault::new(format!("rule {}", change.id()), fault.detail))
            }
            (None, None) => rest.push(fault),
        }
    }
    let problem = Problem {
        errors: rest,
        ..problem
    };
    if faults.is_empty() {
        problem.to_string()
    } else {
        format!("{}\n{problem}", FileFaults::new(&file.name, faults))
    }
}

/// The parts of a field like `upsert[3].limit`.
fn numbered(field: &str) -> Option<(&str, usize, &str)> {
    let (list, rest) = field.split_once('[')?;
    let (number, field) = rest.split_once(']')?;
    Some((
        list,
        number.parse().ok()?,
        field.strip_prefix('.').unwrap_or(field),
    ))
}
