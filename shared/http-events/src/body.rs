//! Reading a request's body.

use axum::body::to_bytes;
use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Map, Value};

use crate::problem::Problem;

/// The longest body, in bytes.
const LONGEST: usize = 1 << 20;

/// A body of JSON. An empty one is an object without fields.
#[derive(Debug)]
pub struct Body(pub Value);

impl<S: Sync> FromRequest<S> for Body {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Problem> {
        let json = is_json(request.headers());
        let Ok(bytes) = to_bytes(request.into_body(), LONGEST).await else {
            return Err(Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("a body may have at most {LONGEST} bytes"),
            ));
        };
        if bytes.is_empty() {
            return Ok(Self(Value::Object(Map::new())));
        }
        if !json {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "a body must be application/json",
            ));
        }
        serde_json::from_slice(&bytes)
            .map(Self)
            .map_err(|error| Problem::fault("", &format!("the body must be JSON: {error}")))
    }
}

/// Whether a body is JSON by its own word. One that says nothing is taken to be.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(CONTENT_TYPE) else {
        return true;
    };
    let kind = kind.to_str().unwrap_or_default();
    let kind = kind
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}
