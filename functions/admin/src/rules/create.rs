//! `POST /ratelimit/rules`

use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::Response;
use http_events::openapi::{Operation, reference};
use http_events::{Body, both};

use super::read_rule;
use crate::actor::Actor;
use crate::answer;
use crate::describe::{rules, writing, written};
use crate::failure::Failure;
use crate::query::Query;
use crate::state::State;

pub(crate) fn describe() -> Operation {
    writing("createRule", "Make a rule")
        .body(reference("RuleDraft"), rules::example())
        .answer(written(StatusCode::CREATED, "Rule"))
}

pub(crate) async fn handle(
    Shared(state): Shared<State>,
    Actor(actor): Actor,
    query: Query,
    body: Body,
) -> Result<Response, Failure> {
    let ((), draft) = both(query.finish(), body.read(|body| read_rule(body, None)))?;
    let written = state.database.create_rule(&actor, draft).await?;
    Ok(answer::put(&state, StatusCode::CREATED, &written).await)
}
