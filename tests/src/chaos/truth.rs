//! What is left when all is over: what Postgres holds is what every container goes by.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{
    control::call,
    edits::{Edited, PLACES, resource},
    rules::STANDING,
    stage::{Seat, Stage, client_name, refresh, text},
    traffic::{authorizer, check, policy},
    wrong::Wrong,
};
use crate::{Function, FunctionError};

/// How long the last changes may take to be published, on a slow and busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Truth {
    /// Rules that Postgres holds.
    pub(super) rules: usize,
    /// Questions whether one of them is in force in a container.
    pub(super) looks: usize,
    /// What is not as it should be.
    pub(super) wrong: Wrong,
}

/// Publishes what is not yet, and looks at every rule and every key in every container.
pub(super) async fn compare(stage: &Stage, edited: &Edited) -> Truth {
    let mut truth = Truth::default();
    if let Err(told) = published(stage).await {
        truth.wrong.note("not all is published in the end", &told);
    }
    let query = [("limit", "1000")];
    let listed = call(&stage.rules, "GET", "/ratelimit/rules", &query, Value::Null).await;
    let rules = listed.body["rules"].as_array().cloned().unwrap_or_default();
    truth.rules = rules.len();
    for (rule, id) in STANDING.iter().zip(&stage.standing) {
        if !rules.iter().any(|each| each["id"] == id.as_str()) {
            truth.wrong.note("a rule is gone", rule.name);
        }
    }
    for (number, seat) in stage.seats.iter().enumerate() {
        let who = seat.name(number);
        for rule in &rules {
            truth.looks += 1;
            let path = path_of(&text(rule, "resource"));
            let told = counted(stage, seat, &path).await;
            let wanted = piece(rule);
            if !told.as_ref().is_ok_and(|policy| policy.contains(&wanted)) {
                let told = format!("{who} by {rule}: {told:?}");
                truth.wrong.note("in the end a rule is not in force", &told);
            }
        }
        for place in (0..PLACES).map(resource) {
            if rules.iter().any(|rule| rule["resource"] == place.as_str()) {
                continue;
            }
            truth.looks += 1;
            let told = counted(stage, seat, &path_of(&place)).await;
            if told != Ok(String::new()) && told != Ok("\"default\"".to_owned()) {
                let told = format!("{who} for {place}: {told:?}");
                truth
                    .wrong
                    .note("in the end a rule is in force that is gone", &told);
            }
        }
        if seat.function == Function::Authorizer {
            look_at_keys(stage, edited, seat, &who, &mut truth).await;
        }
    }
    truth
}

async fn look_at_keys(stage: &Stage, edited: &Edited, seat: &Seat, who: &str, truth: &mut Truth) {
    for (number, leaver) in stage.leavers.iter().enumerate() {
        if edited.uncertain.contains(&number) {
            continue;
        }
        let gone = edited.revoked.iter().any(|each| each.leaver == number);
        truth.looks += 1;
        let told = authorizer(&seat.container, &leaver.key, "/elsewhere").await;
        let refused = matches!(&told, Err(error) if error.error_message == "Unauthorized");
        if refused != gone || (told.is_err() && !refused) {
            let sentence = match gone {
                true => "in the end a key is accepted that was taken away",
                false => "in the end a good key is refused",
            };
            let told = format!("{who} on the key of {}: {told:?}", leaver.client);
            truth.wrong.note(sentence, &told);
        }
    }
}

/// Until `refresh` and the database are at one.
async fn published(stage: &Stage) -> Result<(), String> {
    let end = Instant::now() + PATIENCE;
    loop {
        let done = refresh(&stage.scheduled).await;
        let query: [(&str, &str); 0] = [];
        let told = call(
            &stage.rules,
            "GET",
            "/ratelimit/revision",
            &query,
            Value::Null,
        )
        .await;
        let at = told.body["revision"].as_u64();
        if told.is_done() && done.is_some() && done == at {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(format!(
                "published is {done:?}, and Postgres tells {told:?}"
            ));
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// The rules by which a container counts a call, as it tells them.
async fn counted(stage: &Stage, seat: &Seat, path: &str) -> Result<String, FunctionError> {
    let told = match seat.function {
        Function::Authorizer => authorizer(&seat.container, &stage.keys[0], path).await?,
        _ => check(&seat.container, &client_name(0), path).await?,
    };
    Ok(policy(seat.function, &told))
}

fn path_of(resource: &str) -> String {
    resource.trim_start_matches("GET ").replace('*', "1")
}

/// How a header tells of a rule.
fn piece(rule: &Value) -> String {
    let id = text(rule, "id");
    let end = &id[id.len().saturating_sub(8)..];
    format!("\"{end}\";q={};w={}", rule["limit"], rule["time_window"])
}
