//! Every answer that is no: RFC 9457 problem+json.

use axum::Json;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use limits::Fault;
use serde::Serialize;
use serde_json::{Map, Value};

/// So many faults are told, and of a field's name so many characters: an answer that is too long is none.
const MOST: usize = 1_000;
const LONGEST_NAME: usize = 200;

/// What callers know the problem of an unknown service by.
pub(crate) const NO_SERVICE: &str = "ServiceNameNotFound";

/// What went wrong, as the caller is told.
#[derive(Debug, Clone)]
pub struct Problem {
    status: StatusCode,
    detail: String,
    errors: Vec<Fault>,
    members: Map<String, Value>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Problem {
    /// A problem of this status; `detail` is for people.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            status,
            detail: detail.into(),
            errors: Vec::new(),
            members: Map::new(),
            headers: Vec::new(),
        }
    }

    /// The same, with the fields that are wrong.
    #[must_use]
    pub fn with(mut self, errors: Vec<Fault>) -> Self {
        self.errors = errors;
        self
    }

    /// The same, with a member of its own beside those that every problem has.
    fn member(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.members.insert(name.to_owned(), value.into());
        self
    }

    /// The same, with a header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// 400: every fault of the input.
    pub fn faults(errors: Vec<Fault>) -> Self {
        let detail = match errors.len() {
            1 => "one thing is wrong with the request".to_owned(),
            many => format!("{many} things are wrong with the request"),
        };
        Self::new(StatusCode::BAD_REQUEST, detail).with(errors)
    }

    /// This and another: the faults of both. Where one is no fault of the fields, that one alone: the rest can wait.
    #[must_use]
    pub fn and(mut self, mut other: Self) -> Self {
        let of_fields = |problem: &Self| {
            problem.status == StatusCode::BAD_REQUEST && !problem.errors.is_empty()
        };
        if !of_fields(&self) {
            return self;
        }
        if !of_fields(&other) {
            return other;
        }
        self.errors.append(&mut other.errors);
        Self::faults(self.errors)
    }

    /// 400: one fault of the input.
    pub fn fault(field: &str, detail: &str) -> Self {
        Self::faults(vec![Fault::new(field, detail)])
    }

    /// 404.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// The problem of a service that takes part in a call and is not known, in words that callers can act upon.
    #[must_use]
    pub fn no_service(status: StatusCode, name: &str, detail: &str) -> Self {
        Self::new(status, detail)
            .member("error", NO_SERVICE)
            .member("name", name)
    }

    /// 503: a store is out.
    pub fn store_out(detail: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
            .header(RETRY_AFTER, HeaderValue::from_static("1"))
    }
}

#[derive(Serialize)]
struct Body<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "<[Fault]>::is_empty")]
    errors: &'a [Fault],
    #[serde(flatten)]
    members: &'a Map<String, Value>,
}

impl IntoResponse for Problem {
    fn into_response(mut self) -> Response {
        self.errors.truncate(MOST);
        for fault in &mut self.errors {
            if let Some((end, _)) = fault.field.char_indices().nth(LONGEST_NAME) {
                fault.field.truncate(end);
            }
        }
        let body = Json(Body {
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: &self.detail,
            errors: &self.errors,
            members: &self.members,
        });
        let always = [
            (CONTENT_TYPE, "application/problem+json"),
            (CACHE_CONTROL, "no-store"),
        ];
        let own = HeaderMap::from_iter(self.headers);
        (self.status, own, always, body).into_response()
    }
}
