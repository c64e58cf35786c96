//! The file that rules are kept in.

mod read;
mod write;

use std::collections::BTreeMap;
use std::fmt;

use limits::Rule;

use crate::text::{MOST_TOLD, shown};
pub use crate::yaml::Position;
pub use read::read;
pub(crate) use read::{ignore_answered, read_id};
pub use write::write;

/// The rules of a file, in its order.
#[derive(Debug)]
pub struct RulesFile {
    /// The file, as it was named.
    pub name: String,
    /// What stands in it.
    pub rules: Vec<WrittenRule>,
}

/// A rule as it stands in a file.
#[derive(Debug)]
pub struct WrittenRule {
    /// Where it begins.
    pub at: Position,
    /// Where each of its fields stands.
    pub fields: BTreeMap<String, Position>,
    /// Whether the file says which rule it is. Else it is the one in its place.
    pub has_id: bool,
    /// The rule. Its id is nil where the file says none.
    pub rule: Rule,
}

impl WrittenRule {
    /// Where a fault of one of its fields is shown: at the field, or where the rule begins.
    pub fn position(&self, field: &str) -> Position {
        self.fields.get(field).copied().unwrap_or(self.at)
    }
}

/// Something that is wrong in a file, and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileFault {
    /// Where.
    pub at: Position,
    /// The field; empty where it is none.
    pub field: String,
    /// What would be right.
    pub detail: String,
}

/// Everything that is wrong with a file, in its order: one line each, as compilers write it, and of very much the first and how
/// much more there is.
#[derive(Debug, PartialEq, Eq)]
pub struct FileFaults {
    name: String,
    faults: Vec<FileFault>,
}

impl FileFaults {
    /// The faults of the file of that name.
    pub fn new(name: &str, mut faults: Vec<FileFault>) -> Self {
        faults.sort();
        let name = name.to_owned();
        Self { name, faults }
    }
}

impl fmt::Display for FileFaults {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = shown(&self.name);
        for (count, fault) in self.faults.iter().take(MOST_TOLD).enumerate() {
            let line = if count == 0 { "" } else { "\n" };
            let at = fault.at;
            write!(out, "{line}{name}:{at}: ")?;
            if !fault.field.is_empty() {
                write!(out, "{}: ", shown(&fault.field))?;
            }
            write!(out, "{}", shown(&fault.detail))?;
        }
        if self.faults.len() > MOST_TOLD {
            write!(out, "\n{name}: and {} more", self.faults.len() - MOST_TOLD)?;
        }
        Ok(())
    }
}
