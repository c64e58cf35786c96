//! `weir rules apply`

mod guard;
mod refused;

use std::io;

use serde_json::{Map, Value, json};

use self::guard::{Guard, NO_REVISION};
use super::Plan;
use crate::api::Api;
use crate::batches::{RingTooLong, Step, batches};
use crate::difference::{Change, Difference};
use crate::exit::Exit;
use crate::fields::fields;
use crate::held::Held;
use crate::output::print;

/// Makes the API hold what a file says.
#[derive(Debug, Clone)]
pub struct Apply {
    /// What is compared.
    pub plan: Plan,
    /// Whether somebody is asked first.
    pub asks: bool,
    /// Whether what others write in between is overwritten.
    pub force: bool,
}

impl Apply {
    /// Compares, shows, asks, writes.
    ///
    /// # Errors
    /// Every fault of the file, or what stood in the way and what was written before it did.
    pub async fn run(self, api: &Api) -> Result<Exit, String> {
        let file = self.plan.read()?;
        let held = Held::read(api).await.map_err(|error| error.to_string())?;
        if held.revision.is_none() && !self.force {
            return Err(format!("{NO_REVISION}; --force writes all the same"));
        }
        let difference = self.plan.shown(&file, &held)?;
        if difference.changes.is_empty() {
            return Ok(Exit::Success);
        }
        let writes = cut(&difference)?;
        if writes.len() > 1 {
            print(&format!(
                "These are {} writes, each all or none.\n",
                writes.len()
            ))?;
        }
        if self.asks && !confirmed()? {
            return Err("nothing was applied".to_owned());
        }
        let mut guard = Guard {
            api,
            revision: held.revision.filter(|_| !self.force),
            rules: held.revisions(),
        };
        for (done, write) in writes.iter().enumerate() {
            let told = guard.write(&file, write).await;
            let told = told.map_err(|reason| match done {
                0 => reason,
                _ => format!(
                    "{reason}\n{done} of {} writes were applied before: apply again",
                    writes.len()
                ),
            })?;
            print(&told)?;
        }
        Ok(Exit::Success)
    }
}

/// One write: the changes of it.
type Changes<'a> = Vec<&'a Change<'a>>;

fn cut<'a>(difference: &'a Difference<'a>) -> Result<Vec<Changes<'a>>, String> {
    let changes = &difference.changes;
    let steps: Vec<_> = changes
        .iter()
        .map(|change| Step {
            from: change.from(),
            to: change.to(),
            bytes: body(change).to_string().len() + 1,
        })
        .collect();
    let cut = batches(&steps).map_err(|RingTooLong(length)| {
        format!("{length} rules change places with one another, which is more than one write may change: move one of them elsewhere first")
    })?;
    let writes = cut
        .into_iter()
        .map(|batch| batch.into_iter().map(|number| &changes[number]).collect());
    Ok(writes.collect())
}

/// A change as the API reads it in a batch.
fn body(change: &Change<'_>) -> Value {
    let id = json!(change.id());
    match change.written() {
        None => id,
        Some(written) => {
            let mut rule: Map<String, Value> = fields(written.rule.draft()).into_iter().collect();
            rule.insert("id".to_owned(), id);
            Value::Object(rule)
        }
    }
}

fn confirmed() -> Result<bool, String> {
    print("Apply this? Only `yes` does: ")?;
    let mut answer = String::new();
    io::stdin()
        .read_line(&mut answer)
        .map_err(|error| format!("standard input: {error}"))?;
    Ok(answer.trim() == "yes")
}
