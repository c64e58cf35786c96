//! Reading a request's body.

use std::convert::Infallible;

use axum::body::to_bytes;
use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use limits::Fault;
use serde_json::{Map, Value};

use crate::json;
use crate::problem::Problem;

/// The longest body, in bytes.
const LONGEST: usize = 1 << 20;

/// A body of JSON. An empty one is an object without fields.
#[derive(Debug)]
pub struct Body(Result<Told, Problem>);

#[derive(Debug)]
struct Told {
    value: Value,
    /// The fields that it tells twice.
    twice: Vec<Fault>,
    /// Whether there is none.
    empty: bool,
}

impl Body {
    /// The same, but there must be one: for what would mean something without a word.
    #[must_use]
    pub fn needed(self) -> Self {
        Self(match self.0 {
            Ok(told) if told.empty => Err(Problem::fault("", "there must be a body")),
            told => told,
        })
    }

    /// What the body says, as `read` has it.
    ///
    /// # Errors
    /// What is wrong with the body as a whole; else what `read` finds, and the fields that are told twice.
    pub fn read<T>(self, read: impl FnOnce(&Value) -> Result<T, Problem>) -> Result<T, Problem> {
        let Told { value, twice, .. } = self.0?;
        let once = if twice.is_empty() {
            Ok(())
        } else {
            Err(Problem::faults(twice))
        };
        both(once, read(&value)).map(|((), read)| read)
    }
}

/// What two readings of one request give.
///
/// # Errors
/// All that is wrong, in one answer.
pub fn both<A, B>(
    first: Result<A, Problem>,
    second: Result<B, Problem>,
) -> Result<(A, B), Problem> {
    match (first, second) {
        (Ok(first), Ok(second)) => Ok((first, second)),
        (Err(problem), Ok(_)) | (Ok(_), Err(problem)) => Err(problem),
        (Err(first), Err(second)) => Err(first.and(second)),
    }
}

impl<S: Sync> FromRequest<S> for Body {
    /// Read later, so that what is wrong beside it can be told with it.
    type Rejection = Infallible;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Infallible> {
        Ok(Self(told(request).await))
    }
}

async fn told(request: Request) -> Result<Told, Problem> {
    let json = is_json(request.headers());
    let Ok(bytes) = to_bytes(request.into_body(), LONGEST).await else {
        return Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("a body may have at most {LONGEST} bytes"),
        ));
    };
    if bytes.is_empty() {
        return Ok(Told {
            value: Value::Object(Map::new()),
            twice: Vec::new(),
            empty: true,
        });
    }
    if !json {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "a body must be application/json",
        ));
    }
    match json::read(&bytes) {
        Ok((value, twice)) => Ok(Told {
            value,
            twice,
            empty: false,
        }),
        Err(error) => Err(Problem::fault(
            "",
            &format!("the body must be JSON: {error}"),
        )),
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
