//! `GET /clients/{id}`

use axum::extract::State as Shared;
use axum::response::Response;
use http_events::Named;

use super::{known, no_such_client};
use crate::answer;
use crate::failure::Failure;
use crate::query::Query;
use crate::state::State;

pub(crate) async fn handle(
    Shared(state): Shared<State>,
    Named(id): Named<String>,
    query: Query,
) -> Result<Response, Failure> {
    query.finish()?;
    known(&id)?;
    let client = state
        .database
        .client(&id)
        .await?
        .ok_or_else(no_such_client)?;
    Ok(answer::shown(&client, client.revision))
}
