//! Reading a request's body and its preconditions.

use axum::body::to_bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::{CONTENT_TYPE, IF_MATCH};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use limits::Fields;
use limits_postgres::Expected;
use serde_json::{Map, Value};

use crate::problem::Problem;

/// The longest body, in bytes.
const LONGEST: usize = 1 << 20;

/// A body of JSON. An empty one is an object without fields.
pub(crate) struct Body(pub(crate) Value);

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

impl Body {
    /// A reader over the fields that anything that was answered may hold beside what is read of it.
    ///
    /// # Errors
    /// Where the body is no object.
    pub(crate) fn fields(&self) -> Result<Fields<'_>, Problem> {
        let mut fields = Fields::of(&self.0).map_err(Problem::faults)?;
        for told in ["revision", "propagation", "created_at", "updated_at"] {
            fields.ignore(told);
        }
        Ok(fields)
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

/// # Errors
/// Every fault that the reader noted.
pub(crate) fn finish(fields: Fields<'_>) -> Result<(), Problem> {
    let faults = fields.finish();
    if faults.is_empty() {
        Ok(())
    } else {
        Err(Problem::faults(faults))
    }
}

/// What `If-Match` takes to be there.
pub(crate) struct IfMatch(pub(crate) Expected);

impl<S: Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let mut values = parts.headers.get_all(IF_MATCH).iter().peekable();
        if values.peek().is_none() {
            return Ok(Self(Expected::Whatever));
        }
        let mut revisions = Vec::new();
        for tag in values.flat_map(|value| value.to_str().unwrap_or_default().split(',')) {
            let tag = tag.trim();
            if tag == "*" {
                return Ok(Self(Expected::Something));
            }
            // A tag that is none of ours, a weak one included, is no revision: it matches nothing.
            let own = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
            revisions.extend(own.and_then(|number| number.parse::<u64>().ok()));
        }
        Ok(Self(Expected::Revisions(revisions)))
    }
}
