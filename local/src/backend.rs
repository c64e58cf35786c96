//! The protected backend: it echoes what it was sent, and passes the authorizer's values on, as the example in the template does.

use axum::body::Bytes;
use axum::extract::Extension;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use serde_json::{Value, json};

use crate::gateway::Passed;

const TOLD: [(&str, &str); 5] = [
    ("ratelimit", "rateLimit"),
    ("ratelimit-policy", "rateLimitPolicy"),
    ("x-ratelimit-limit", "limit"),
    ("x-ratelimit-remaining", "remaining"),
    ("x-ratelimit-reset", "reset"),
];

/// A backend for every method and path.
pub fn echo() -> Router {
    Router::new().fallback(answer)
}

async fn answer(
    method: Method,
    uri: Uri,
    Extension(passed): Extension<Passed>,
    body: Bytes,
) -> Response {
    let body = if body.is_empty() {
        Value::Null
    } else {
        Value::from(String::from_utf8_lossy(&body))
    };
    let told = &passed.authorizer;
    let mut headers: HeaderMap = TOLD
        .iter()
        .filter_map(|(name, key)| {
            let value = told.get(*key)?.as_str().filter(|text| !text.is_empty())?;
            Some((
                HeaderName::from_static(name),
                HeaderValue::from_str(value).ok()?,
            ))
        })
        .collect();
    headers.insert(
        http::header::ACCESS_CONTROL_ALLOW_ORIGIN,
        HeaderValue::from_static("*"),
    );
    headers.insert(
        http::header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static(
            "RateLimit,RateLimit-Policy,X-RateLimit-Limit,X-RateLimit-Remaining,X-RateLimit-Reset",
        ),
    );
    let echo = json!({
        "method": method.as_str(),
        "path": uri.path(),
        "query": passed.event.query(),
        "headers": passed.event.headers(),
        "body": body,
        "authorizer": told,
    });
    (headers, Json(echo)).into_response()
}
