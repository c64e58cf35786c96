//! A difference as people read it.

use std::fmt::{self, Write};

use limits::Rule;
use limits::rule::Per;
use serde_json::Value;

use crate::difference::{Change, Difference, changed_fields};
use crate::fields::told_fields;
use crate::text::shown;

/// Every change with what it changes, every rule that is left alone, and the counts. `file` is the file's name.
///
/// # Errors
/// Never: a text takes what is written.
pub fn difference(file: &str, difference: &Difference<'_>) -> Result<String, fmt::Error> {
    let mut out = String::new();
    let file = shown(file);
    for change in &difference.changes {
        match change {
            Change::Create { written, .. } => {
                writeln!(
                    out,
                    "+ create {}  ({file}:{})",
                    heading(&written.rule),
                    written.at.line
                )?;
                // Its heading names the resource.
                for (name, value) in told_fields(written.rule.draft()).into_iter().skip(1) {
                    writeln!(out, "    {name}: {}", value_text(&value))?;
                }
            }
            Change::Update { held, written } => {
                writeln!(
                    out,
                    "~ update {}  ({file}:{}, rule {})",
                    heading(&written.rule),
                    written.at.line,
                    held.id()
                )?;
                for change in changed_fields(held, &written.rule) {
                    let (old, new) = (value_text(&change.old), value_text(&change.new));
                    writeln!(out, "    {}: {old} → {new}", change.name)?;
                }
            }
            Change::Delete { held } => {
                writeln!(out, "- delete {}  (rule {})", heading(held), held.id())?;
            }
        }
    }
    for rule in &difference.left {
        writeln!(
            out,
            "? left alone {}  (rule {}): not in the file",
            heading(rule),
            rule.id()
        )?;
    }
    if !out.is_empty() {
        out.push('\n');
    }
    writeln!(out, "{}", summary(difference))?;
    Ok(out)
}

fn summary(difference: &Difference<'_>) -> String {
    let (mut create, mut update, mut delete) = (0, 0, 0);
    for change in &difference.changes {
        match change {
            Change::Create { .. } => create += 1,
            Change::Update { .. } => update += 1,
            Change::Delete { .. } => delete += 1,
        }
    }
    let unchanged = difference.unchanged;
    let mut summary = if difference.changes.is_empty() {
        format!("No difference: {unchanged} unchanged")
    } else {
        format!("{create} to create, {update} to update, {delete} to delete, {unchanged} unchanged")
    };
    match difference.left.len() {
        0 => summary.push('.'),
        left => summary.push_str(&format!(
            ", {left} not in the file (--prune deletes what is not)."
        )),
    }
    summary
}

/// What a rule is about, in a line.
fn heading(rule: &Rule) -> String {
    let draft = rule.draft();
    let mut heading = shown(&draft.resource).into_owned();
    if let Some(client) = &draft.client {
        heading.push_str(&format!(", client {}", shown(client)));
    }
    if let Some(tier) = draft.tier {
        heading.push_str(&format!(", tier {tier}"));
    }
    if draft.per != Per::Client {
        heading.push_str(&format!(", per {}", draft.per));
    }
    heading
}

/// A value as JSON writes it, and safe to show.
fn value_text(value: &Value) -> String {
    shown(&value.to_string()).into_owned()
}
