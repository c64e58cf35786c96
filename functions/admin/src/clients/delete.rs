//! `DELETE /clients/{id}`

use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::Response;
use http_events::Named;
use http_events::openapi::{Operation, Shape};

use super::known;
use crate::actor::Actor;
use crate::answer;
use crate::body::IfMatch;
use crate::describe::{client_id, gone, if_match, writing};
use crate::failure::Failure;
use crate::query::Query;
use crate::state::State;

pub(crate) fn describe() -> Operation {
    let cascade = Shape::boolean()
        .by_default(false)
        .meaning("Whether the rules that name it go with it.");
    let operation = writing("deleteClient", "Delete a client and its keys")
        .path("id", client_id().example("alice"))
        .query("cascade", cascade)
        .answer(gone())
        .problem(StatusCode::NOT_FOUND);
    if_match(operation)
}

pub(crate) async fn handle(
    Shared(state): Shared<State>,
    Actor(actor): Actor,
    Named(id): Named<String>,
    IfMatch(expected): IfMatch,
    mut query: Query,
) -> Result<Response, Failure> {
    let cascade = query.read("cascade", |text| match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    });
    query.finish()?;
    known(&id)?;
    let cascade = cascade.unwrap_or(false);
    let written = state
        .database
        .delete_client(&actor, &id, cascade, expected)
        .await?;
    Ok(answer::gone(&state, &written).await)
}
