//! `POST /clients/{id}/keys`

use axum::extract::State as Shared;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http_events::openapi::{Answer, Operation, reference};
use http_events::{Body, Named, Problem, both};
use limits_postgres::change_keys::KeyDraft;
use limits_postgres::record::moment;
use rand::TryRng;
use rand::rngs::SysRng;
use serde_json::{Map, Value, json};
use tracing::error;

use super::known;
use crate::actor::Actor;
use crate::answer;
use crate::body::{fields, finish};
use crate::describe::{announced, client_id, writing};
use crate::failure::Failure;
use crate::query::Query;
use crate::state::State;

pub(crate) fn describe() -> Operation {
    let meaning = "The key, with its secret.";
    let answer = Answer::json(StatusCode::CREATED, meaning, reference("NewKey"));
    writing(
        "createKey",
        "Make an API key; its secret is shown this once",
    )
    .path("id", client_id().example("alice"))
    .optional_body(
        reference("KeyDraft"),
        json!({"description": "for the warehouse"}),
    )
    .answer(announced(answer))
    .problem(StatusCode::NOT_FOUND)
}

pub(crate) async fn handle(
    Shared(state): Shared<State>,
    Actor(actor): Actor,
    Named(id): Named<String>,
    query: Query,
    body: Body,
) -> Result<Response, Failure> {
    known(&id)?;
    let ((), draft) = both(query.finish(), body.read(read))?;
    let secret = secret()?;
    let written = state
        .database
        .create_key(&actor, &id, &secret, draft)
        .await?;
    let key = &written.value;
    let body = Map::from_iter([
        ("key_id".to_owned(), json!(key.key_id)),
        ("api_key".to_owned(), json!(secret)),
        ("description".to_owned(), json!(key.description)),
        ("created_at".to_owned(), json!(moment::text(key.created_at))),
        (
            "expires_at".to_owned(),
            json!(key.expires_at.map(moment::text)),
        ),
    ]);
    let mut answer = answer::told(&state, StatusCode::CREATED, written.revision, body).await;
    // Nobody on the way may keep the secret.
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(answer)
}

fn read(body: &Value) -> Result<KeyDraft, Problem> {
    let mut fields = fields(body)?;
    let draft = KeyDraft::read(&mut fields);
    finish(fields)?;
    Ok(draft)
}

/// 256 bits from the system's source of randomness. The prefix lets people, and scanners of secrets, know it for what it is.
fn secret() -> Result<String, Problem> {
    let mut bits = [0; 32];
    SysRng.try_fill_bytes(&mut bits).map_err(|reason| {
        error!(%reason, "the system gives no randomness");
        Problem::store_out("no key can be made now")
    })?;
    Ok(format!("weir_{}", URL_SAFE_NO_PAD.encode(bits)))
}
