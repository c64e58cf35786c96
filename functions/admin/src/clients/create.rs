//! `POST /clients`

use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::Response;
use http_events::openapi::{Operation, reference};
use http_events::{Body, Problem, both};
use limits::registry::check_client_id;
use limits_postgres::change_clients::ClientDraft;
use serde_json::{Value, json};

use crate::actor::Actor;
use crate::answer;
use crate::body::{fields, finish};
use crate::describe::{writing, written};
use crate::failure::Failure;
use crate::query::Query;
use crate::state::State;

pub(crate) fn describe() -> Operation {
    writing("createClient", "Register a client or a service")
        .body(
            reference("ClientDraft"),
            json!({"client_id": "alice", "tier": "paid"}),
        )
        .answer(written(StatusCode::CREATED, "Client"))
}

pub(crate) async fn handle(
    Shared(state): Shared<State>,
    Actor(actor): Actor,
    query: Query,
    body: Body,
) -> Result<Response, Failure> {
    let ((), (id, draft)) = both(query.finish(), body.read(read))?;
    let written = state.database.create_client(&actor, &id, draft).await?;
    Ok(answer::put(&state, StatusCode::CREATED, &written).await)
}

fn read(body: &Value) -> Result<(String, ClientDraft), Problem> {
    let mut fields = fields(body)?;
    let id = fields.text("client_id").unwrap_or_default().to_owned();
    if let Err(detail) = check_client_id(&id) {
        fields.fault_once("client_id", detail);
    }
    let draft = ClientDraft::read(&mut fields);
    finish(fields)?;
    Ok((id, draft))
}
