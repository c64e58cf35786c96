//! What operators do meanwhile: rules come, go and change, keys are taken away, and announcements are lost, doubled and late.

use std::time::Duration;

use local::topic::{Mode, Order};
use serde_json::{Value, json};

use super::{
    control::{Told, call},
    stage::{SCHEDULE, Shared, Stage, refresh, text},
};

/// Places with a rule that changes.
pub(super) const PLACES: usize = 5;

const PAUSE: Duration = Duration::from_millis(400);

/// What becomes of the announcements of one edit after the other.
const MODES: [Mode; 7] = [
    Mode::Deliver,
    Mode::Drop,
    Mode::Duplicate,
    Mode::Hold,
    Mode::Hold,
    Mode::Hold,
    Mode::Refuse,
];

/// A key that was taken away.
#[derive(Debug, Clone, Copy)]
pub(super) struct Revoked {
    pub(super) leaver: usize,
    /// When the control API had said so.
    pub(super) at: Duration,
    pub(super) revision: u64,
}

/// What was done.
#[derive(Debug, Default)]
pub(super) struct Edited {
    pub(super) written: usize,
    /// Postgres was out, or the answer is not known.
    pub(super) failed: usize,
    pub(super) revoked: Vec<Revoked>,
    /// Of these it is not known whether they still have their keys.
    pub(super) uncertain: Vec<usize>,
}

/// A run of `refresh` that succeeded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) began: Duration,
    pub(super) ended: Duration,
    pub(super) revision: u64,
}

/// Wakes `refresh` again and again, and tells which runs succeeded.
pub(super) async fn schedule(stage: Shared) -> Vec<Run> {
    let mut runs = Vec::new();
    while !stage.is_over() {
        let began = stage.now();
        if let Some(revision) = refresh(&stage.scheduled).await {
            runs.push(Run {
                began,
                ended: stage.now(),
                revision,
            });
        }
        stage.rest(SCHEDULE).await;
    }
    runs
}

/// Edits until the run is over. Afterwards announcements are delivered again.
pub(super) async fn edit(stage: Shared) -> Edited {
    let mut edited = Edited::default();
    let mut step = 0;
    while !stage.is_over() {
        let mode = MODES[step % MODES.len()];
        if mode != Mode::Hold {
            stage.topic().release(Order::Reversed);
        }
        stage.topic().set(mode);
        if step % 5 == 4 {
            revoke(&stage, &mut edited).await;
        } else {
            let told = change(&stage, step).await;
            edited.note(&told);
        }
        step += 1;
        stage.rest(PAUSE).await;
    }
    stage.topic().release(Order::Reversed);
    stage.topic().set(Mode::Deliver);
    edited
}

impl Edited {
    fn note(&mut self, told: &Told) {
        match told.is_done() {
            true => self.written += 1,
            false => self.failed += 1,
        }
    }
}

async fn revoke(stage: &Stage, edited: &mut Edited) {
    let leaver = edited.revoked.len() + edited.uncertain.len();
    // The last two stay, so that somebody does.
    let Some(leaving) = stage.leavers[..stage.leavers.len() - 2].get(leaver) else {
        return;
    };
    let path = format!("/clients/{}/keys/{}", leaving.client, leaving.key_id);
    let told = call(&stage.clients, "DELETE", &path, &[], Value::Null).await;
    edited.note(&told);
    match told.revision {
        Some(revision) if told.is_done() => edited.revoked.push(Revoked {
            leaver,
            at: stage.now(),
            revision,
        }),
        _ => edited.uncertain.push(leaver),
    }
}

/// Makes, replaces or deletes the rule of a place.
async fn change(stage: &Stage, step: usize) -> Told {
    let resource = resource(step % PLACES);
    let query = [("resource", resource.as_str())];
    let path = "/ratelimit/rules";
    let found = call(&stage.rules, "GET", path, &query, Value::Null).await;
    if !found.is_done() {
        return found;
    }
    let body = json!({
        "resource": resource,
        "limit": 1_000_000 + step,
        "time_window": 60,
    });
    let id = text(&found.body["rules"][0], "id");
    match (id.as_str(), step % 3) {
        ("", _) => call(&stage.rules, "POST", path, &[], body).await,
        (id, 0) => {
            let path = format!("{path}/{id}");
            call(&stage.rules, "DELETE", &path, &[], Value::Null).await
        }
        (id, _) => {
            let path = format!("{path}/{id}");
            call(&stage.rules, "PUT", &path, &[], body).await
        }
    }
}

/// The pattern of a place whose rule changes.
pub(super) fn resource(place: usize) -> String {
    format!("GET /edited/{place}")
}
