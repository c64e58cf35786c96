//! `GET /clients/{id}/keys`

use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::Response;
use http_events::Named;
use http_events::openapi::Operation;

use super::{known, no_such_client};
use crate::answer;
use crate::describe::{client_id, listing, operation};
use crate::failure::Failure;
use crate::query::Query;
use crate::state::State;

pub(crate) fn describe() -> Operation {
    let operation = operation(
        "listKeys",
        "List the API keys of a client, without their secrets",
    )
    .path("id", client_id().example("alice"))
    .problem(StatusCode::NOT_FOUND);
    listing(operation, "keys", "Key")
}

pub(crate) async fn handle(
    Shared(state): Shared<State>,
    Named(id): Named<String>,
    mut query: Query,
) -> Result<Response, Failure> {
    let (limit, cursor) = (query.limit(), query.cursor());
    query.finish()?;
    known(&id)?;
    let page = state.database.list_keys(&id, cursor, limit).await?;
    Ok(answer::page("keys", &page.ok_or_else(no_such_client)?))
}
