//! `PUT /clients/{id}`

use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::Response;
use http_events::openapi::{Operation, reference};
use http_events::{Body, Named, Problem, both};
use limits_postgres::change_clients::ClientDraft;
use serde_json::{Value, json};

use super::known;
use crate::actor::Actor;
use crate::answer;
use crate::body::{IfMatch, fields, finish};
use crate::describe::{client_id, if_match, writing, written};
use crate::failure::Failure;
use crate::query::Query;
use crate::state::State;

pub(crate) fn describe() -> Operation {
    let operation = writing("replaceClient", "Replace a client as a whole")
        .path("id", client_id().example("alice"))
        .body(reference("ClientReplacement"), json!({"tier": "premium"}))
        .answer(written(StatusCode::OK, "Client"))
        .problem(StatusCode::NOT_FOUND);
    if_match(operation)
}

pub(crate) async fn handle(
    Shared(state): Shared<State>,
    Actor(actor): Actor,
    Named(id): Named<String>,
    query: Query,
    IfMatch(expected): IfMatch,
    body: Body,
) -> Result<Response, Failure> {
    known(&id)?;
    let read = body.needed().read(|body| read(body, &id));
    let ((), draft) = both(query.finish(), read)?;
    let written = state
        .database
        .replace_client(&actor, &id, draft, expected)
        .await?;
    Ok(answer::put(&state, StatusCode::OK, &written).await)
}

fn read(body: &Value, id: &str) -> Result<ClientDraft, Problem> {
    let mut fields = fields(body)?;
    if fields.text("client_id").is_some_and(|told| told != id) {
        fields.fault("client_id", "must be that of the path, or left out");
    }
    let draft = ClientDraft::read(&mut fields);
    finish(fields)?;
    Ok(draft)
}
