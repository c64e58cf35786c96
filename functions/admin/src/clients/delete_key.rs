//! `DELETE /clients/{id}/keys/{key_id}`

use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::Response;
use http_events::openapi::{Operation, Shape};
use http_events::{Named, Problem};
use uuid::Uuid;

use super::known;
use crate::actor::Actor;
use crate::answer;
use crate::describe::{client_id, gone, writing};
use crate::failure::Failure;
use crate::query::Query;
use crate::state::State;

pub(crate) fn describe() -> Operation {
    writing("deleteKey", "Delete an API key")
        .path("id", client_id().example("alice"))
        .path("key_id", Shape::uuid())
        .answer(gone())
        .problem(StatusCode::NOT_FOUND)
}

pub(crate) async fn handle(
    Shared(state): Shared<State>,
    Actor(actor): Actor,
    Named((id, key_id)): Named<(String, String)>,
    query: Query,
) -> Result<Response, Failure> {
    query.finish()?;
    known(&id)?;
    let key_id =
        Uuid::try_parse(&key_id).map_err(|_| Problem::not_found("there is no such key"))?;
    let written = state.database.delete_key(&actor, &id, key_id).await?;
    Ok(answer::gone(&state, &written).await)
}
