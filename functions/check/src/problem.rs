//! What went wrong, as RFC 9457 has it.

use axum::{
    http::{
        StatusCode,
        header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER},
    },
    response::{IntoResponse, Response},
};
use limits::Fault;
use serde::Serialize;

/// An answer that is none to the question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    detail: String,
    faults: Vec<Fault>,
}

impl Problem {
    /// A problem of this status; `detail` is for people and holds no text from outside.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            status,
            detail: detail.into(),
            faults: Vec::new(),
        }
    }

    /// 400, with every field that is wrong.
    pub fn faults(faults: Vec<Fault>) -> Self {
        Self {
            faults,
            ..Self::new(StatusCode::BAD_REQUEST, "The question is not valid.")
        }
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
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = axum::Json(Body {
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or_default(),
            status: self.status.as_u16(),
            detail: &self.detail,
            errors: &self.faults,
        });
        let headers = [
            (CONTENT_TYPE, "application/problem+json"),
            (CACHE_CONTROL, "no-store"),
        ];
        let mut response = (self.status, headers, body).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            let soon = axum::http::HeaderValue::from_static("1");
            response.headers_mut().insert(RETRY_AFTER, soon);
        }
        response
    }
}
