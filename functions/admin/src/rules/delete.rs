//! `DELETE /ratelimit/rules/{id}`

use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::Response;
use http_events::Named;
use http_events::openapi::Operation;

use super::required_id;
use crate::actor::Actor;
use crate::answer;
use crate::body::IfMatch;
use crate::describe::{gone, if_match, writing};
use crate::failure::Failure;
use crate::query::Query;
use crate::state::State;

pub(crate) fn describe() -> Operation {
    let operation = writing("deleteRule", "Delete a rule")
        .path("name", super::name())
        .answer(gone())
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
) -> Result<Response, Failure> {
    let id = required_id(&name)?;
    query.finish()?;
    let written = state.database.delete_rule(&actor, id, expected).await?;
    Ok(answer::gone(&state, &written).await)
}
