//! Every answer that is no: RFC 9457 problem+json.

use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, ETAG, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use limits::Fault;
use limits_postgres::{DatabaseError, Refusal, WriteError};
use serde::Serialize;
use tracing::error;

use crate::answer::etag;

/// What went wrong, as the caller is told.
#[derive(Debug, Serialize)]
pub(crate) struct Problem {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<Fault>,
    #[serde(skip)]
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            r#type: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: detail.into(),
            errors: Vec::new(),
            headers: Vec::new(),
        }
    }

    fn with(mut self, errors: Vec<Fault>) -> Self {
        self.errors = errors;
        self
    }

    fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// 400: every fault of the input.
    pub(crate) fn faults(errors: Vec<Fault>) -> Self {
        let detail = match errors.len() {
            1 => "one thing is wrong with the request".to_owned(),
            many => format!("{many} things are wrong with the request"),
        };
        Self::new(StatusCode::BAD_REQUEST, detail).with(errors)
    }

    /// 400: one fault of the input.
    pub(crate) fn fault(field: &str, detail: &str) -> Self {
        Self::faults(vec![Fault::new(field, detail)])
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// 405. The router adds `Allow` where it knows what the path takes.
    pub(crate) fn wrong_method(method: &Method) -> Self {
        let detail = format!("this path does not take {method}");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, detail)
    }

    /// 405, with what the path takes.
    pub(crate) fn allow(detail: &str, allowed: &'static str) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, detail)
            .header(ALLOW, HeaderValue::from_static(allowed))
    }

    /// 503: a store is out.
    pub(crate) fn store_out(detail: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
            .header(RETRY_AFTER, HeaderValue::from_static("1"))
    }

    fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // Plain texts and numbers: there is nothing here that could fail to become JSON.
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.extend(self.headers);
        response
    }
}

impl From<DatabaseError> for Problem {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Unavailable(reason) => {
                error!(reason, "the database is out");
                Self::store_out("the database is out; nothing was changed")
            }
            DatabaseError::Undecided(reason) => {
                error!(reason, "the database was lost while it wrote");
                Self::store_out(
                    "the database was lost while it wrote: look whether the change was made before you try again",
                )
            }
            DatabaseError::Unexpected(reason) => {
                error!(reason, "the database answered what nobody expects");
                Self::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "this should not happen; the log says more",
                )
            }
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotFound(what) => Self::not_found(format!("there is no such {what}")),
            Refusal::Faults(faults) => Self::faults(faults),
            Refusal::Stale { present } => {
                let problem = Self::new(
                    StatusCode::PRECONDITION_FAILED,
                    "it was changed since, or is not there: read it again",
                );
                match present {
                    Some(revision) => problem.header(ETAG, etag(revision)),
                    None => problem,
                }
            }
            Refusal::RuleExists(rivals) => {
                let errors = rivals.iter().map(|rival| {
                    Fault::new(
                        rival.field.as_str(),
                        format!("rule {} has this place", rival.id),
                    )
                });
                Self::conflict("there is a rule for the same resource, client, tier, per, algorithm and time_window")
                    .with(errors.collect())
            }
            Refusal::SeveralRules(many) => Self::conflict(format!(
                "there are {many} such rules: address one by its id, at /ratelimit/rules/{{id}}"
            )),
            Refusal::ClientExists => {
                Self::conflict("there is a client of this id").with(vec![Fault::new(
                    "client_id",
                    "must be one that is not taken",
                )])
            }
            Refusal::PrincipalTaken { client } => {
                Self::conflict("another client comes as this principal").with(vec![Fault::new(
                    "principal",
                    format!("is that of client {client}"),
                )])
            }
            Refusal::ClientNamed { rule } => Self::conflict(format!(
                "rules name this client, {rule} for one: delete them first, or ask with ?cascade=true"
            )),
        }
    }
}

impl From<WriteError> for Problem {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Refused(refusal) => refusal.into(),
            WriteError::Database(error) => error.into(),
        }
    }
}
