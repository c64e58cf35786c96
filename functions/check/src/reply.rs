//! What a decision is answered with.

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header::CACHE_CONTROL},
    response::{IntoResponse, Response},
};
use limiter::{Decision, Reply, headers::Headers};
use serde::Serialize;
use serde_json::{Map, Value};
use time::OffsetDateTime;

/// The answer to a question: the status that its asker waits for, the headers, the body.
pub fn respond(decision: &Decision, status: StatusCode) -> Response {
    let reply = Reply::of(decision, OffsetDateTime::now_utc());
    (status, headers(decision), axum::Json(reply)).into_response()
}

/// What a service that is stopped is told in a word.
pub(crate) const EXCEEDED: &str = "ExceedTpsLimit";

/// What a denial is told beside when it ends.
#[derive(Debug, Serialize)]
struct Throttled {
    error: &'static str,
    #[serde(flatten)]
    reply: Reply,
}

/// The answer to a service that asks whether another may call it: an empty 200, or a 429 that tells all.
pub fn respond_between(decision: &Decision) -> Response {
    let headers = headers(decision);
    if decision.allowed {
        return (headers, axum::Json(Map::<String, Value>::new())).into_response();
    }
    let throttled = Throttled {
        error: EXCEEDED,
        reply: Reply::of(decision, OffsetDateTime::now_utc()),
    };
    (
        StatusCode::TOO_MANY_REQUESTS,
        headers,
        axum::Json(throttled),
    )
        .into_response()
}

fn headers(decision: &Decision) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let told = Headers::of(decision);
    for (name, value) in told.named() {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            headers.insert(name, value);
        }
    }
    headers
}
