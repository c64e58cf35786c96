//! `POST /ratelimit/reset`

use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::Response;
use http_events::openapi::{Answer, Operation, Shape};
use http_events::{Body, Problem, both};
use limits::Fields;
use limits::registry::check_client_id;
use limits_postgres::reset::Whose;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::actor::Actor;
use crate::answer;
use crate::body::finish;
use crate::describe::{self, announced, client_id, writing};
use crate::failure::Failure;
use crate::query::Query;
use crate::state::State;

const NEITHER: &str = "must have `client`, `rule_id`, or both";

pub(crate) fn describe() -> Operation {
    let whose = || {
        let client = client_id().or_null();
        let rule = Shape::uuid().or_null();
        (
            client.meaning("Whose; registered or not. Null is everyone."),
            rule.meaning("By which rule; null is any."),
        )
    };
    let (client, rule) = whose();
    let body = Shape::object()
        .field("client", client)
        .field("rule_id", rule)
        .closed();
    let (client, rule) = whose();
    let generation = Shape::count()
        .meaning("Since when they count: seconds since 1970, or one more than the last reset.");
    let told = Shape::object()
        .required("client", client)
        .required("rule_id", rule)
        .required("generation", generation)
        .required("revision", describe::revision())
        .required("propagation", describe::propagation());
    let answer = Answer::json(StatusCode::OK, "What was reset.", told);
    writing(
        "reset",
        "Let the buckets of a client, of a rule, or of one by the other start fresh",
    )
    .body(body, json!({"client": "demo-free"}))
    .answer(announced(answer))
    .problem(StatusCode::NOT_FOUND)
}

pub(crate) async fn handle(
    Shared(state): Shared<State>,
    Actor(actor): Actor,
    query: Query,
    body: Body,
) -> Result<Response, Failure> {
    let ((), whose) = both(query.finish(), body.read(read))?;
    let written = state.database.reset(&actor, &whose).await?;
    let reset = &written.value;
    let body = Map::from_iter([
        ("client".to_owned(), json!(reset.client)),
        ("rule_id".to_owned(), json!(reset.rule_id)),
        ("generation".to_owned(), json!(reset.generation)),
    ]);
    Ok(answer::told(&state, StatusCode::OK, written.revision, body).await)
}

fn read(body: &Value) -> Result<Whose, Problem> {
    let mut fields = Fields::of(body).map_err(Problem::faults)?;
    let told = |name: &str| body.get(name).is_some_and(|value| !value.is_null());
    if !told("client") && !told("rule_id") {
        fields.fault("", NEITHER);
    }
    let client = fields.text("client").map(str::to_owned);
    if let Some(Err(detail)) = client.as_deref().map(check_client_id) {
        fields.fault("client", detail);
    }
    let rule = fields.text("rule_id").map(Uuid::try_parse);
    if let Some(Err(_)) = rule {
        fields.fault("rule_id", "must be the id of a rule");
    }
    finish(fields)?;
    match (client, rule.and_then(Result::ok)) {
        (Some(client), None) => Ok(Whose::Client(client)),
        (None, Some(rule)) => Ok(Whose::Rule(rule)),
        (Some(client), Some(rule)) => Ok(Whose::ClientByRule(client, rule)),
        (None, None) => Err(Problem::fault("", NEITHER)),
    }
}
