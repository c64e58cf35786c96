//! What a file and the API's rules differ in.

use std::collections::{HashMap, HashSet};

use limits::{Place, Rule};
use serde_json::Value;
use uuid::Uuid;

use crate::fields::fields;
use crate::held::{Held, HeldRule};
use crate::rules_file::{FileFault, FileFaults, RulesFile, WrittenRule};

/// What makes the API hold what the file says.
#[derive(Debug)]
pub struct Difference<'a> {
    /// What must change: what is put in the order of the file, then what is deleted.
    pub changes: Vec<Change<'a>>,
    /// How many rules of the file are as the API holds them.
    pub unchanged: usize,
    /// Rules that the file does not have, and that are left alone.
    pub left: Vec<&'a Rule>,
}

/// One change.
#[derive(Debug)]
pub enum Change<'a> {
    /// A rule that is not there.
    Create {
        /// The id that it gets.
        id: Uuid,
        /// The rule.
        written: &'a WrittenRule,
    },
    /// A rule that is another one now.
    Update {
        /// What it is.
        held: &'a Rule,
        /// What it shall be.
        written: &'a WrittenRule,
    },
    /// A rule that is no more.
    Delete {
        /// What it is.
        held: &'a Rule,
    },
}

impl Change<'_> {
    /// The id of the rule.
    pub fn id(&self) -> Uuid {
        match self {
            Self::Create { id, .. } => *id,
            Self::Update { held, .. } | Self::Delete { held } => held.id(),
        }
    }

    /// The place that it gives up, or keeps.
    pub fn from(&self) -> Option<Place> {
        match self {
            Self::Create { .. } => None,
            Self::Update { held, .. } | Self::Delete { held } => Some(held.place()),
        }
    }

    /// The place that it takes, or keeps.
    pub fn to(&self) -> Option<Place> {
        self.written().map(|written| written.rule.place())
    }

    /// The rule of the file; none for a deletion.
    pub fn written(&self) -> Option<&WrittenRule> {
        match self {
            Self::Create { written, .. } | Self::Update { written, .. } => Some(written),
            Self::Delete { .. } => None,
        }
    }
}

/// A field that changes.
#[derive(Debug, PartialEq, Eq)]
pub struct FieldChange {
    /// The field.
    pub name: String,
    /// Its value now.
    pub old: Value,
    /// The value that it gets.
    pub new: Value,
}

/// The fields in which two rules differ.
pub fn changed_fields(old: &Rule, new: &Rule) -> Vec<FieldChange> {
    let both = fields(old.draft()).into_iter().zip(fields(new.draft()));
    both.filter(|(old, new)| old != new)
        .map(|((name, old), (_, new))| FieldChange { name, old, new })
        .collect()
}

/// Compares. A rule of the file with an id is the one of that id, be it there or not; one without is the one in its place. What
/// the file does not have is deleted with `prune`, else left alone.
///
/// # Errors
/// Where a rule that is left alone has the place that one of the file wants.
pub fn compare<'a>(
    file: &'a RulesFile,
    held: &'a Held,
    prune: bool,
) -> Result<Difference<'a>, FileFaults> {
    let by_id: HashMap<Uuid, &HeldRule> = held
        .rules
        .iter()
        .map(|held| (held.rule.id(), held))
        .collect();
    let by_place: HashMap<Place, &HeldRule> = held
        .rules
        .iter()
        .map(|held| (held.rule.place(), held))
        .collect();
    let told: HashSet<Uuid> = file
        .rules
        .iter()
        .filter(|rule| rule.has_id)
        .map(|rule| rule.rule.id())
        .collect();

    let mut changes = Vec::new();
    let mut unchanged = 0;
    let mut found = HashSet::new();
    for written in &file.rules {
        let counterpart = if written.has_id {
            by_id.get(&written.rule.id())
        } else {
            // One that the file tells by its id is another one, which leaves this place or has it no more.
            let there = by_place.get(&written.rule.place());
            there.filter(|held| !told.contains(&held.rule.id()))
        };
        match counterpart {
            None => {
                let id = if written.has_id {
                    written.rule.id()
                } else {
                    Uuid::now_v7()
                };
                changes.push(Change::Create { id, written });
            }
            Some(there) => {
                let held = &there.rule;
                found.insert(held.id());
                if held.draft() == written.rule.draft() {
                    unchanged += 1;
                } else {
                    changes.push(Change::Update { held, written });
                }
            }
        }
    }
    let rest = held
        .rules
        .iter()
        .map(|held| &held.rule)
        .filter(|rule| !found.contains(&rule.id()));
    let (gone, left): (Vec<&Rule>, Vec<&Rule>) = rest.partition(|_| prune);
    changes.extend(gone.into_iter().map(|held| Change::Delete { held }));
    refuse_taken(file, &left)?;
    Ok(Difference {
        changes,
        unchanged,
        left,
    })
}

fn refuse_taken(file: &RulesFile, left: &[&Rule]) -> Result<(), FileFaults> {
    let taken: HashMap<Place, Uuid> = left.iter().map(|rule| (rule.place(), rule.id())).collect();
    let faults = file.rules.iter().filter_map(|written| {
        let rival = taken.get(&written.rule.place())?;
        let detail = format!(
            "stands in the place of rule {rival}, which the file does not have: leave out the id to mean that one, or delete that one with --prune"
        );
        let (at, field) = (written.position("id"), "id".to_owned());
        Some(FileFault { at, field, detail })
    });
    let faults: Vec<FileFault> = faults.collect();
    if faults.is_empty() {
        Ok(())
    } else {
        Err(FileFaults::new(&file.name, faults))
    }
}
