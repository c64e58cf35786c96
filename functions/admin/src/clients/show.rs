//! `GET /clients/{id}`

use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::Response;
use http_events::Named;
use http_events::openapi::{Answer, Operation, reference};

use super::{known, no_such_client};
use crate::answer;
use crate::describe::{client_id, operation, tagged};
use crate::failure::Failure;
use crate::query::Query;
use crate::state::State;

pub(crate) fn describe() -> Operation {
    let answer = Answer::json(StatusCode::OK, "As it is.", reference("Client"));
    operation("showClient", "Show a client")
        .path("id", client_id().example("alice"))
        .answer(tagged(answer))
        .problem(StatusCode::NOT_FOUND)
}

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
