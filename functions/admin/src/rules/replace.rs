//! `PUT /ratelimit/rules/{id}`

use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::Response;
use http_events::openapi::{Operation, reference};
use http_events::{Body, Named, both};

use super::{read_rule, required_id};
use crate::actor::Actor;
use crate::answer;
use crate::body::IfMatch;
use crate::describe::{if_match, rules, writing, written};
use crate::failure::Failure;
use crate::query::Query;
use crate::state::State;

pub(crate) fn describe() -> Operation {
    let operation = writing("replaceRule", "Replace a rule as a whole")
        .path("name", super::name())
        .body(reference("RuleDraft"), rules::example())
        .answer(written(StatusCode::OK, "Rule"))
        .problem(StatusCode::NOT_FOUND)
        .problem(StatusCode::METHOD_NOT_ALLOWED);
    if_match(operation)
}

pub(crate) async fn handle(
    Shared(state): Shared<State>,
    Actor(actor): Actor,
    Named(name): Named<String>,
    query: Query,
    IfMatch(expected): IfMatch,
    body: Body,
) -> Result<Response, Failure> {
    let id = required_id(&name)?;
    let read = body.read(|body| read_rule(body, Some(id)));
    let ((), draft) = both(query.finish(), read)?;
    let written = state
        .database
        .replace_rule(&actor, id, draft, expected)
        .await?;
    Ok(answer::put(&state, StatusCode::OK, &written).await)
}
