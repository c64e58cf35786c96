//! `GET /clients`

use axum::extract::State as Shared;
use axum::response::Response;
use http_events::openapi::Operation;
use limits::registry::check_client_id;

use crate::answer;
use crate::describe::{listing, operation};
use crate::failure::Failure;
use crate::query::Query;
use crate::state::State;

pub(crate) fn describe() -> Operation {
    listing(
        operation("listClients", "List clients"),
        "clients",
        "Client",
    )
}

pub(crate) async fn handle(
    Shared(state): Shared<State>,
    mut query: Query,
) -> Result<Response, Failure> {
    let limit = query.limit();
    let cursor: Option<String> = query.cursor();
    if cursor
        .as_deref()
        .is_some_and(|id| check_client_id(id).is_err())
    {
        query.fault("cursor", "must be the `next` of the same list");
    }
    query.finish()?;
    let page = state
        .database
        .list_clients(cursor.as_deref(), limit)
        .await?;
    Ok(answer::page("clients", &page))
}
