//! `POST /ratelimit/rules`

use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::Response;

use super::read_rule;
use crate::actor::Actor;
use crate::answer;
use crate::body::Body;
use crate::problem::Problem;
use crate::query::Query;
use crate::state::State;

pub(crate) async fn handle(
    Shared(state): Shared<State>,
    Actor(actor): Actor,
    query: Query,
    body: Body,
) -> Result<Response, Problem> {
    query.finish()?;
    let draft = read_rule(&body, None)?;
    let written = state.database.create_rule(&actor, draft).await?;
    Ok(answer::put(&state, StatusCode::CREATED, &written).await)
}
