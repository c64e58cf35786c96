//! Writing while others may write too.

use std::collections::BTreeMap;

use reqwest::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use super::body;
use super::refused::refused;
use crate::api::{Answer, Api, ApiError};
use crate::difference::Change;
use crate::held::{self, Held};
use crate::output::print;
use crate::rules_file::RulesFile;

/// What is told where nobody can watch.
pub(super) const NO_REVISION: &str = "the API cannot tell its revision now, so nobody could tell whether somebody else writes in between";

/// Writes, and watches over what others write in between.
pub(super) struct Guard<'a> {
    pub(super) api: &'a Api,
    /// The newest write that is known of; none where nobody is to watch.
    pub(super) revision: Option<u64>,
    /// The revision of each rule as it was compared, and as it was written since.
    pub(super) rules: BTreeMap<Uuid, u64>,
}

impl Guard<'_> {
    /// One write. Gives what to tell of it.
    pub(super) async fn write(
        &mut self,
        file: &RulesFile,
        write: &[&Change<'_>],
    ) -> Result<String, String> {
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
        if let Some(last) = self.revision {
            self.revision = Some(told.revision);
            if told.revision != last + 1
                && let Err(reason) = self.look_again().await
            {
                print(&text)?;
                return Err(reason);
            }
        }
        Ok(text)
    }

    /// Looks whether what somebody else wrote in the moment of a write were rules.
    async fn look_again(&mut self) -> Result<(), String> {
        let held = Held::read(self.api).await.map_err(|error| {
            format!("somebody else wrote in the same moment, and what cannot be told: {error}")
        })?;
        let now = held.revisions();
        let mut ids = now.keys().chain(self.rules.keys());
        if let Some(id) = ids.find(|id| now.get(id) != self.rules.get(id)) {
            return Err(format!(
                "somebody else wrote in the same moment: rule {id} is not as it was compared or written. GET /ratelimit/audit shows what they did; compare again"
            ));
        }
        self.revision = held.revision.or(self.revision);
        Ok(())
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
