//! `/rule`: the one token bucket of a user, an API, or a user on an API.
//!
//! A user alone is {client, `*`, per client}; an API alone {resource, per all}; both {client, resource, per client}.

use axum::Json;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use http_events::openapi::{Answer, Operation, Shape, reference};
use http_events::{Body, Problem, both};
use limits::registry::check_client_id;
use limits::rule::{LONGEST_WINDOW, MOST};
use limits::{Draft, Fields, Pattern, Rule};
use limits_postgres::change_pair::Allowance;
use limits_postgres::find_rules::Pair;
use limits_postgres::{RuleRecord, Written};
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::wording::Wording;
use crate::actor::Actor;
use crate::answer;
use crate::body::{IfMatch, fields, finish};
use crate::describe::{self, gone, if_match, operation, tagged, writing, written};
use crate::failure::Failure;
use crate::query::Query;
use crate::state::State;

/// The units of a window, in seconds.
pub(crate) const UNITS: [(&str, u64); 4] = [
    ("second", 1),
    ("minute", 60),
    ("hour", 3_600),
    ("day", 86_400),
];
const ONE_IS_NEEDED: &str = "must name a user, an api, or both";

const WORDING: Wording = Wording(&[
    ("client", "user"),
    ("resource", "api"),
    ("limit", "tokens"),
    ("burst", "capacity"),
]);

/// A bucket as this form shows it.
#[derive(Serialize)]
struct Bucket {
    id: Uuid,
    user: Option<String>,
    api: Option<String>,
    tokens: Option<u64>,
    time_unit: Option<&'static str>,
    /// Only where it is no unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_window: Option<u64>,
    capacity: Option<u64>,
    revision: u64,
}

impl Bucket {
    fn of(rule: &RuleRecord) -> Self {
        let draft = &rule.draft;
        let unit = UNITS
            .iter()
            .find(|(_, seconds)| *seconds == draft.time_window);
        // A user alone is a user on everything.
        let alone = draft.client.is_some() && draft.resource == "*";
        Self {
            id: rule.id,
            user: draft.client.clone(),
            api: (!alone).then(|| draft.resource.clone()),
            tokens: draft.limit,
            time_unit: unit.map(|(name, _)| *name),
            time_window: unit.is_none().then_some(draft.time_window),
            // That of a block is nothing, and nothing is no capacity that could be put back.
            capacity: draft.burst.or(draft.limit).filter(|most| *most > 0),
            revision: rule.revision,
        }
    }
}

/// What a body of this form says.
struct Told {
    pair: Pair,
    /// The API as written.
    resource: String,
    allowance: Allowance,
}

fn addressing(operation: Operation) -> Operation {
    operation
        .query(
            "user",
            describe::client_id().meaning("Who; left out, anyone."),
        )
        .query(
            "api",
            describe::resource().meaning("What is called; left out, everything."),
        )
        .problem(StatusCode::NOT_FOUND)
}

fn example() -> Value {
    json!({"user": "alice", "api": "GET /orders/*", "tokens": 10, "time_unit": "minute", "capacity": 20})
}

pub(crate) fn describe_show() -> Operation {
    let told = Shape::object().required("rules", Shape::list(reference("Bucket")));
    let answer = Answer::json(
        StatusCode::OK,
        "The bucket; several, where others than this form made them.",
        told,
    );
    addressing(operation(
        "showBucket",
        "Show the token bucket of a user, an API, or both",
    ))
    .answer(tagged(answer))
}

pub(crate) fn describe_create() -> Operation {
    writing(
        "createBucket",
        "Make the token bucket of a user, an API, or both",
    )
    .body(reference("BucketDraft"), example())
    .answer(written(StatusCode::CREATED, "Bucket"))
}

pub(crate) fn describe_replace() -> Operation {
    let operation = writing(
        "replaceBucket",
        "Replace the token bucket of a user, an API, or both",
    )
    .body(reference("BucketDraft"), example())
    .answer(written(StatusCode::OK, "Bucket"))
    .problem(StatusCode::NOT_FOUND);
    if_match(operation)
}

pub(crate) fn describe_delete() -> Operation {
    let operation = writing(
        "deleteBucket",
        "Delete the token bucket of a user, an API, or both",
    )
    .answer(gone());
    if_match(addressing(operation))
}

/// `GET /rule`
pub(crate) async fn show(Shared(state): Shared<State>, query: Query) -> Result<Response, Failure> {
    let pair = addressed(query)?;
    let rules = state.database.rules_of_pair(&pair).await?;
    if rules.is_empty() {
        return Err(Problem::not_found("there is no such rule").into());
    }
    let shown: Vec<Bucket> = rules.iter().map(Bucket::of).collect();
    let body = json!({"rules": shown});
    Ok(match rules.as_slice() {
        [one] => answer::shown(&body, one.revision),
        _ => Json(body).into_response(),
    })
}

/// `POST /rule`
pub(crate) async fn create(
    Shared(state): Shared<State>,
    Actor(actor): Actor,
    query: Query,
    body: Body,
) -> Result<Response, Failure> {
    let ((), told) = both(query.finish(), body.read(read))?;
    let Told {
        pair,
        resource,
        allowance,
    } = told;
    let written = state
        .database
        .create_pair(&actor, &pair, &resource, allowance)
        .await
        .map_err(|error| WORDING.of_error(error))?;
    Ok(answer::put(&state, StatusCode::CREATED, &shown(&written)).await)
}

/// `PUT /rule`
pub(crate) async fn replace(
    Shared(state): Shared<State>,
    Actor(actor): Actor,
    query: Query,
    IfMatch(expected): IfMatch,
    body: Body,
) -> Result<Response, Failure> {
    let ((), told) = both(query.finish(), body.read(read))?;
    let Told {
        pair, allowance, ..
    } = told;
    let written = state
        .database
        .replace_pair(&actor, &pair, allowance, expected)
        .await
        .map_err(|error| WORDING.of_error(error))?;
    Ok(answer::put(&state, StatusCode::OK, &shown(&written)).await)
}

/// `DELETE /rule`
pub(crate) async fn delete(
    Shared(state): Shared<State>,
    Actor(actor): Actor,
    IfMatch(expected): IfMatch,
    query: Query,
) -> Result<Response, Failure> {
    let pair = addressed(query)?;
    let written = state.database.delete_pair(&actor, &pair, expected).await?;
    Ok(answer::gone(&state, &written).await)
}

fn shown(written: &Written<RuleRecord>) -> Written<Bucket> {
    Written {
        revision: written.revision,
        value: Bucket::of(&written.value),
    }
}

/// The pair that a query names.
fn addressed(mut query: Query) -> Result<Pair, Problem> {
    let named = query.told("user") || query.told("api");
    let client = query.client("user");
    let api = query.read("api", Pattern::parse);
    if !named {
        query.fault("user", ONE_IS_NEEDED);
    }
    query.finish()?;
    pair(client, api).ok_or_else(|| Problem::fault("user", ONE_IS_NEEDED))
}

fn pair(client: Option<String>, api: Option<Pattern>) -> Option<Pair> {
    let resource = match api {
        Some(resource) => resource,
        None => Pattern::parse("*").ok().filter(|_| client.is_some())?,
    };
    Some(Pair { client, resource })
}

fn read(body: &Value) -> Result<Told, Problem> {
    let mut fields = fields(body)?;
    fields.ignore("id");
    let user = fields.text("user").map(str::to_owned);
    if let Some(user) = &user
        && let Err(detail) = check_client_id(user)
    {
        fields.fault("user", detail);
    }
    let api = fields.text("api");
    let pattern = api.map(Pattern::parse);
    if let Some(Err(detail)) = &pattern {
        fields.fault("api", detail.as_str());
    }
    if [fields.value("user"), fields.value("api")]
        .iter()
        .all(|told| told.is_none_or(Value::is_null))
    {
        fields.fault("user", ONE_IS_NEEDED);
    }
    let limit = read_tokens(&mut fields);
    let time_window = read_window(&mut fields);
    let burst = fields.integer("capacity", 1, MOST);
    finish(fields)?;
    let pair = pair(user, pattern.and_then(Result::ok));
    let (Some(pair), Some(time_window)) = (pair, time_window) else {
        return Err(Problem::fault("user", ONE_IS_NEEDED));
    };
    let allowance = Allowance {
        limit,
        time_window,
        // What follows the limit goes on following it.
        burst: burst.filter(|burst| Some(*burst) != limit),
    };
    let draft = Draft {
        burst: allowance.burst,
        ..Draft::new("*", limit, time_window)
    };
    if let Err(faults) = Rule::new(Uuid::nil(), draft) {
        return Err(Problem::faults(WORDING.of_faults(faults)));
    }
    Ok(Told {
        resource: api.unwrap_or("*").to_owned(),
        pair,
        allowance,
    })
}

/// Null is an exemption, and must be written out as for any rule.
fn read_tokens(fields: &mut Fields<'_>) -> Option<u64> {
    fields.require(
        "tokens",
        "an integer from 0 to 1000000000, or null for an exemption",
    );
    fields.integer("tokens", 0, MOST)
}

/// A unit; or null and a `time_window`, as a window is shown that is none.
fn read_window(fields: &mut Fields<'_>) -> Option<u64> {
    let detail = "must be one of second, minute, hour, day";
    let seconds = fields.integer("time_window", 1, LONGEST_WINDOW);
    let told = fields
        .value("time_window")
        .is_some_and(|told| !told.is_null());
    match fields.value("time_unit") {
        None => {
            fields.fault("time_unit", format!("is required: it {detail}"));
            None
        }
        Some(Value::Null) => {
            if seconds.is_none() && !told {
                fields.fault("time_unit", detail);
            }
            seconds
        }
        Some(unit) => {
            let unit = UNITS.iter().find(|(name, _)| unit.as_str() == Some(name));
            if unit.is_none() {
                fields.fault("time_unit", detail);
            }
            if unit.is_some() && told {
                fields.fault("time_window", "must not stand beside a time_unit");
            }
            unit.map(|(_, seconds)| *seconds)
        }
    }
}
