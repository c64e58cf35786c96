//! `weir rules apply`

use std::collections::BTreeMap;
use std::io;

use reqwest::StatusCode;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::Plan;
use crate::api::{Answer, Api, ApiError, Problem};
use crate::batches::{RingTooLong, Step, batches};
use crate::difference::{Change, Difference};
use crate::exit::Exit;
use crate::fields::fields;
use crate::held::{self, Held};
use crate::output::print;
use crate::rules_file::{FileFault, FileFaults, RulesFile};

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

const NO_REVISION: &str = "the API cannot tell its revision now, so nobody could tell whether somebody else writes in between";

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

/// Writes, and watches over what others write in between.
struct Guard<'a> {
    api: &'a Api,
    /// The newest write that is known of; none where nobody is to watch.
    revision: Option<u64>,
    /// The revision of each rule as it was compared, and as it was written since.
    rules: BTreeMap<Uuid, u64>,
}

impl Guard<'_> {
    async fn write(&mut self, file: &RulesFile, write: &[&Change<'_>]) -> Result<String, String> {
        self.check().await?;
        let (puts, deletions): (Vec<&Change<'_>>, Vec<&Change<'_>>) = write
            .iter()
            .copied()
            .partition(|change| change.written().is_some());
        let list = |changes: &[&Change<'_>]| {
            changes
                .iter()
                .map(|change| body(change))
                .collect::<Vec<_>>()
        };
        let batch = json!({ "upsert": list(&puts), "delete": list(&deletions) });
        let told = self.send(&batch).await.map_err(|error| match error {
            ApiError::Problem(problem) if is_decided(problem.status) => {
                refused(file, &puts, &deletions, problem)
            }
            error => format!(
                "{error}\nwhether this write was applied is not known: look with `weir rules plan`"
            ),
        })?;
        for change in &puts {
            self.rules.insert(change.id(), told.revision);
        }
        for change in &deletions {
            self.rules.remove(&change.id());
        }
        let creations = puts
            .iter()
            .filter(|change| matches!(change, Change::Create { .. }))
            .count();
        let text = format!(
            "Applied: {creations} created, {} updated, {} deleted; revision {}, {}.\n",
            puts.len() - creations,
            deletions.len(),
            told.revision,
            told.propagation
        );
        let last = self.revision.replace(told.revision);
        match last {
            Some(last) if last + 1 != told.revision => {
                print(&text)?;
                Err(format!(
                    "somebody else wrote in the same moment (revision {} and before, after {last}): what they wrote of these rules is overwritten. GET /ratelimit/audit shows it",
                    told.revision - 1
                ))
            }
            Some(_) => Ok(text),
            None => {
                self.revision = None;
                Ok(text)
            }
        }
    }

    /// Refuses where a rule is not as it was compared. What others write of clients does not matter.
    async fn check(&mut self) -> Result<(), String> {
        let Some(known) = self.revision else {
            return Ok(());
        };
        let now = held::revision(self.api)
            .await
            .map_err(|error| error.to_string())?;
        if now == known {
            return Ok(());
        }
        let held = Held::read(self.api)
            .await
            .map_err(|error| error.to_string())?;
        match held.revision {
            Some(now) if held.revisions() == self.rules => {
                self.revision = Some(now);
                Ok(())
            }
            Some(now) => Err(format!(
                "somebody else has changed rules since they were compared (revision {known} then, {now} now): this was not applied. Compare again; --force applies all the same"
            )),
            None => Err(NO_REVISION.to_owned()),
        }
    }

    async fn send(&self, batch: &Value) -> Result<Told, ApiError> {
        let answer = self.api.post(&["ratelimit", "rules:batch"], batch).await?;
        let place = answer.place.clone();
        let body = answer.body()?;
        let propagation = match body.get("propagation").and_then(Value::as_str) {
            Some("announced") => "announced",
            _ => "pending: it is in effect within a minute",
        };
        match body.get("revision").and_then(Value::as_u64) {
            Some(revision) => Ok(Told {
                revision,
                propagation,
            }),
            None => Err(Answer::strange(&place, "it tells no revision")),
        }
    }
}

/// Whether a no says that nothing was written. 503 is the API's own word for a store that is out, and says more itself; other
/// faults of a server may come from what stands before it, while the write goes on.
fn is_decided(status: StatusCode) -> bool {
    !status.is_server_error() || status == StatusCode::SERVICE_UNAVAILABLE
}

/// What the API tells of a write.
struct Told {
    revision: u64,
    propagation: &'static str,
}

/// The API's no in the words of the file: each fault with the line of what it is about.
fn refused(
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
            (None, Some(change)) => rest.push(limits::Fault::new(
                format!("rule {}", change.id()),
                fault.detail,
            )),
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
