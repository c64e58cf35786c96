//! `GET /health`: whether the stores that a function works on answer.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse, Response};
use limits::Fault;
use serde_json::{Map, Value};
use tracing::error;

use crate::openapi::{Answer, Operation, Shape};
use crate::problem::Problem;

/// How long a store may take to answer: longer than it ever does in good health.
const DEADLINE: Duration = Duration::from_secs(2);

/// What there is to say of the operation, whose function works on these stores, and tells more where all of them answer.
pub fn describe(
    stores: &[&str],
    more: impl IntoIterator<Item = (&'static str, Shape)>,
) -> Operation {
    let named = stores.iter().fold(Shape::object(), |shape, store| {
        shape.field(store, Shape::words(&["ok"]))
    });
    let body = Shape::object()
        .required("status", Shape::words(&["ok"]))
        .required(
            "stores",
            named.meaning("Those that this function has been given."),
        );
    let body = more
        .into_iter()
        .fold(body, |body, (name, shape)| body.field(name, shape));
    Operation::new("showHealth", "Whether the stores answer")
        .description("503 names those that do not; the log says why.")
        .answer(Answer::json(StatusCode::OK, "All do.", body))
        .problem(StatusCode::SERVICE_UNAVAILABLE)
}

/// A store's answer to a question, which must come soon.
///
/// # Errors
/// Why there is none, for the log.
pub async fn asked<T, E: Display>(
    question: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match tokio::time::timeout(DEADLINE, question).await {
        Ok(answer) => answer.map_err(|reason| reason.to_string()),
        Err(_) => Err(format!("there was no answer within {DEADLINE:?}")),
    }
}

/// What is answered where the stores answered so; with more, where all of them did.
///
/// # Errors
/// 503 where one is out.
pub fn answer(
    stores: impl IntoIterator<Item = (&'static str, Result<(), String>)>,
    more: Map<String, Value>,
) -> Result<Response, Problem> {
    let mut well = Map::new();
    let mut out = Vec::new();
    for (store, answer) in stores {
        match answer {
            Ok(()) => {
                well.insert(store.to_owned(), Value::from("ok"));
            }
            Err(reason) => {
                error!(store, reason, "a store is out");
                out.push(Fault::new(store, "is out"));
            }
        }
    }
    if !out.is_empty() {
        return Err(Problem::store_out("not all stores answer").with(out));
    }
    let mut body = Map::from_iter([
        ("status".to_owned(), Value::from("ok")),
        ("stores".to_owned(), Value::Object(well)),
    ]);
    body.extend(more);
    Ok(([(CACHE_CONTROL, "no-store")], Json(body)).into_response())
}
