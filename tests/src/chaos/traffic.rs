//! What callers ask, and what they are told.

use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use super::{
    edits::PLACES,
    rules::CLIENTS,
    stage::{Seat, Shared, Stage, client_name},
};
use crate::{Container, Function, FunctionError, answer};

/// Between two calls of one caller.
const PAUSE: Duration = Duration::from_millis(15);

/// What a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// A client that stays, at a place of rules that stay.
    Standing { place: &'static str, client: usize },
    /// A client that stays, at a place whose rule comes, goes and changes.
    Edited { place: usize, client: usize },
    /// A key that is taken away at some time.
    Leaver(usize),
    /// A key that nobody ever had.
    Stranger,
}

/// What a caller was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    Throttled,
    /// The same while the store is out, or by rules that are known to be old.
    AllowedDegraded,
    ThrottledDegraded,
    Unauthorized,
    StoreOut,
    /// Anything else.
    Failed(String),
}

impl Verdict {
    /// Whether the caller was taken for somebody.
    pub(super) fn knows_the_caller(&self) -> bool {
        !matches!(self, Self::Unauthorized | Self::StoreOut | Self::Failed(_))
    }

    pub(super) fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed | Self::AllowedDegraded)
    }

    /// Whether it tells that the store did not answer.
    pub(super) fn is_out(&self) -> bool {
        matches!(
            self,
            Self::AllowedDegraded | Self::ThrottledDegraded | Self::StoreOut
        )
    }
}

#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) seat: usize,
    pub(super) asked: Asked,
    pub(super) began: Duration,
    pub(super) ended: Duration,
    pub(super) verdict: Verdict,
}

/// What a caller goes through, again and again.
const ROUND: [&str; 17] = [
    "own", "shared", "both", "critical", "stranger", "own", "windowed", "logged", "open", "leaver",
    "both", "shared", "critical", "edited", "own", "leaver", "logged",
];

/// Calls one container until the run is over.
pub(super) async fn calls(stage: Shared, number: usize) -> Vec<Answer> {
    let seat = &stage.seats[number];
    let mut answers = Vec::new();
    // Each begins elsewhere.
    let mut step = number * 5;
    while !stage.is_over() {
        step += 1;
        let Some(asked) = what(&stage, seat, step) else {
            continue;
        };
        let turn = seat.turn.lock().await;
        let began = stage.now();
        let verdict = ask(&stage, seat, asked).await;
        let ended = stage.now();
        drop(turn);
        if answered_by_the_store(seat, asked, &verdict) {
            seat.was_right(began);
        }
        if verdict.is_out() {
            seat.was_out(ended);
        }
        answers.push(Answer {
            seat: number,
            asked,
            began,
            ended,
            verdict,
        });
        sleep(PAUSE).await;
    }
    answers
}

fn what(stage: &Stage, seat: &Seat, step: usize) -> Option<Asked> {
    let word = ROUND[step % ROUND.len()];
    let client = (step / ROUND.len() + step) % CLIENTS;
    let asked = match word {
        "stranger" => Asked::Stranger,
        "leaver" => Asked::Leaver(step % stage.leavers.len()),
        "edited" => Asked::Edited {
            place: step / ROUND.len() % PLACES,
            client,
        },
        place => Asked::Standing { place, client },
    };
    // `check` is asked about clients, not about keys; and it does not tell whether an open door is one for want of a store.
    let askable = match asked {
        Asked::Standing { place, .. } => place != "open",
        Asked::Edited { .. } => true,
        Asked::Leaver(_) | Asked::Stranger => false,
    };
    (seat.function == Function::Authorizer || askable).then_some(asked)
}

async fn ask(stage: &Stage, seat: &Seat, asked: Asked) -> Verdict {
    let (path, client) = match asked {
        Asked::Standing { place, client } => (format!("/{place}/1"), client),
        Asked::Edited { place, client } => (format!("/edited/{place}"), client),
        Asked::Leaver(_) | Asked::Stranger => ("/elsewhere".to_owned(), 0),
    };
    let key = match asked {
        Asked::Standing { .. } | Asked::Edited { .. } => &stage.keys[client],
        Asked::Leaver(number) => &stage.leavers[number].key,
        Asked::Stranger => "nobody-ever-had-this-one",
    };
    match seat.function {
        Function::Authorizer => authorizer_verdict(&authorizer(&seat.container, key, &path).await),
        _ => check_verdict(&check(&seat.container, &client_name(client), &path).await),
    }
}

/// Asks an authorizer.
pub(super) async fn authorizer(
    container: &Container,
    key: &str,
    path: &str,
) -> Result<Value, FunctionError> {
    let event = include_str!("../../../events/authorizer-rest.json");
    let mut event: Value = serde_json::from_str(event).unwrap();
    event["headers"]["x-api-key"] = key.into();
    event["multiValueHeaders"]["x-api-key"] = [key].as_slice().into();
    event["path"] = path.into();
    event["requestContext"]["path"] = format!("/prod{path}").into();
    event["pathParameters"]["proxy"] = path[1..].into();
    let arn = format!("arn:aws:execute-api:us-east-1:123456789012:api1234567/prod/GET{path}");
    event["methodArn"] = arn.into();
    container.invoke(&event).await
}

fn authorizer_verdict(outcome: &Result<Value, FunctionError>) -> Verdict {
    let answer = match outcome {
        Ok(answer) => answer,
        Err(error) => {
            return match error.error_message.as_str() {
                "Unauthorized" => Verdict::Unauthorized,
                "StoreUnavailable" => Verdict::StoreOut,
                _ => Verdict::Failed(error.to_string()),
            };
        }
    };
    let effect = answer["policyDocument"]["Statement"][0]["Effect"].as_str();
    let degraded = answer["context"]["degraded"].as_str();
    match (effect, degraded) {
        (Some("Allow"), Some("")) => Verdict::Allowed,
        (Some("Allow"), Some("1")) => Verdict::AllowedDegraded,
        (Some("Deny"), Some("")) => Verdict::Throttled,
        (Some("Deny"), Some("1")) => Verdict::ThrottledDegraded,
        _ => Verdict::Failed(answer.to_string()),
    }
}

/// Asks `check`.
pub(super) async fn check(
    container: &Container,
    client: &str,
    path: &str,
) -> Result<Value, FunctionError> {
    let event = include_str!("../../../events/check-url.json");
    let mut event: Value = serde_json::from_str(event).unwrap();
    let asked = format!("/ratelimit/status/{client}");
    event["rawPath"] = asked.as_str().into();
    event["requestContext"]["http"]["path"] = asked.into();
    event["body"] = format!("{{\"resource\": \"GET {path}\"}}").into();
    container.invoke(&event).await
}

fn check_verdict(outcome: &Result<Value, FunctionError>) -> Verdict {
    let answer = match outcome {
        Ok(answer) => answer,
        Err(error) => return Verdict::Failed(error.to_string()),
    };
    let body = answer["body"].as_str().unwrap_or_default();
    match answer["statusCode"].as_u64() {
        Some(200) => Verdict::Allowed,
        Some(429) if body.contains("store_unavailable") => Verdict::ThrottledDegraded,
        Some(429) => Verdict::Throttled,
        Some(503) => Verdict::StoreOut,
        _ => Verdict::Failed(answer.to_string()),
    }
}

/// The rules that an answer says to have counted, as a header has it.
pub(super) fn policy(function: Function, answer: &Value) -> String {
    let told = match function {
        Function::Authorizer => answer["context"]["rateLimitPolicy"].clone(),
        _ => answer::headers(answer)["ratelimit-policy"].clone(),
    };
    told.as_str().unwrap_or_default().to_owned()
}

/// `check` does not tell whether it was degraded: what it may not answer without the store says so.
fn answered_by_the_store(seat: &Seat, asked: Asked, verdict: &Verdict) -> bool {
    let Asked::Standing { place, .. } = asked else {
        return false;
    };
    matches!(verdict, Verdict::Allowed | Verdict::Throttled)
        && (seat.function == Function::Authorizer || place == "critical")
}
