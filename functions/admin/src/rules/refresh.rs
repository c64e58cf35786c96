//! `POST /ratelimit/refresh`

use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Map;

use crate::answer;
use crate::failure::Failure;
use crate::query::Query;
use crate::state::State;

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
