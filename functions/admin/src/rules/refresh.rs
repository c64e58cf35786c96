//! `POST /ratelimit/refresh`

use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::Response;
use http_events::openapi::{Answer, Operation, Shape};
use serde_json::Map;

use crate::answer;
use crate::describe::{self, announced, operation};
use crate::failure::Failure;
use crate::query::Query;
use crate::state::State;

pub(crate) fn describe() -> Operation {
    let told = Shape::object()
        .required("revision", describe::revision())
        .required("propagation", describe::propagation());
    let answer = Answer::json(StatusCode::OK, "What was announced.", told);
    operation(
        "refresh",
        "Have every region publish what the database holds",
    )
    .answer(announced(answer))
}

/// Wakes `refresh` in every region, which then puts right whatever differs. Nothing is written, so there is no new revision: the
/// present one is announced again.
pub(crate) async fn handle(
    Shared(state): Shared<State>,
    query: Query,
) -> Result<Response, Failure> {
    query.finish()?;
    let head = state.database.head().await?;
    Ok(answer::told(&state, StatusCode::OK, head.revision, Map::new()).await)
}
