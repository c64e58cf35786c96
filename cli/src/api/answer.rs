//! What came back, and what it is when it is no answer.

use std::fmt;

use limits::Fault;
use reqwest::StatusCode;
use reqwest::header::HeaderValue;
use serde_json::Value;

use crate::text::{MOST_TOLD, shown};

/// How much of an answer is shown that cannot be read, in characters.
const SHOWN: usize = 200;
/// How much is told of what is strange in an answer, in characters.
const MOST_DETAIL: usize = 500;

/// An answer in JSON, whatever its status.
#[derive(Debug)]
pub struct Answer {
    /// What was asked.
    pub(crate) place: String,
    /// The status.
    pub status: StatusCode,
    /// The body.
    pub body: Value,
}

/// Why there is no answer to go by.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// Nobody is there, or nobody who speaks HTTP.
    #[error("{place} cannot be reached: {reason}")]
    Unreachable {
        /// What was asked.
        place: String,
        /// Why not.
        reason: String,
    },
    /// It takes too long.
    #[error("{place} did not answer within {seconds} s (--timeout)")]
    Late {
        /// What was asked.
        place: String,
        /// The deadline.
        seconds: u64,
    },
    /// The request could not be signed.
    #[error("the request cannot be signed: {reason}")]
    Unsigned {
        /// Why not.
        reason: String,
    },
    /// The answer is not JSON: this is no API of ours, or something stands in front of it.
    #[error(
        "{place} answered {status} and no JSON, so it is not the API or something stands before it: {beginning}"
    )]
    NotJson {
        /// What was asked.
        place: String,
        /// The status.
        status: StatusCode,
        /// How the answer begins.
        beginning: String,
    },
    /// The answer does not end where an API of ours ends it.
    #[error("{place} answered more than 64 MiB, which is no answer of the API")]
    Endless {
        /// What was asked.
        place: String,
    },
    /// The answer is JSON, and not what it should be.
    #[error("{place} answered what this version of weir does not understand: {detail}")]
    Strange {
        /// What was asked.
        place: String,
        /// What is strange.
        detail: String,
    },
    /// The API says no.
    #[error(transparent)]
    Problem(Problem),
    /// There is no such path.
    #[error("{0}")]
    NoPath(String),
}

/// The API's no: problem+json, or what API Gateway or Lambda say in its stead.
#[derive(Debug, thiserror::Error)]
pub struct Problem {
    /// What was asked.
    pub place: String,
    /// The status.
    pub status: StatusCode,
    /// What it says, for people.
    pub detail: String,
    /// Every fault that it names.
    pub errors: Vec<Fault>,
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} answered {}", self.place, self.status)?;
        if !self.detail.is_empty() {
            write!(out, ": {}", shown(&self.detail))?;
        }
        for Fault { field, detail } in self.errors.iter().take(MOST_TOLD) {
            let field = if field.is_empty() {
                "the request"
            } else {
                field
            };
            write!(out, "\n  {}: {}", shown(field), shown(detail))?;
        }
        if self.errors.len() > MOST_TOLD {
            write!(out, "\n  and {} more", self.errors.len() - MOST_TOLD)?;
        }
        Ok(())
    }
}

impl Answer {
    /// The body of an answer that is yes.
    ///
    /// # Errors
    /// Where it is no.
    pub fn body(self) -> Result<Value, ApiError> {
        if self.status.is_success() {
            return Ok(self.body);
        }
        let told = |name: &str| self.body.get(name).and_then(Value::as_str);
        let detail = ["detail", "message", "Message", "title", "error"]
            .into_iter()
            .find_map(told);
        let errors = self.body.get("errors").and_then(Value::as_array);
        let text = |error: &Value, name: &str| {
            let text = error.get(name).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        Err(ApiError::Problem(Problem {
            detail: detail.unwrap_or_default().to_owned(),
            errors: errors
                .into_iter()
                .flatten()
                .map(|error| Fault::new(text(error, "field"), text(error, "detail")))
                .collect(),
            place: self.place,
            status: self.status,
        }))
    }

    /// What this answer is where something in it is not as it should be.
    pub(crate) fn strange(place: &str, detail: impl Into<String>) -> ApiError {
        let detail: String = detail.into().chars().take(MOST_DETAIL).collect();
        ApiError::Strange {
            place: place.to_owned(),
            detail: shown(&detail).into_owned(),
        }
    }
}

pub(super) fn read(
    place: &str,
    status: StatusCode,
    kind: Option<&HeaderValue>,
    body: &[u8],
) -> Result<Answer, ApiError> {
    let place = place.to_owned();
    match serde_json::from_slice(body) {
        Ok(body) => Ok(Answer {
            place,
            status,
            body,
        }),
        Err(_) => {
            let text = String::from_utf8_lossy(body);
            let mut beginning: String = text.trim().chars().take(SHOWN).collect();
            if beginning.is_empty() {
                beginning = "it is empty".to_owned();
            } else if let Some(kind) = kind.and_then(|kind| kind.to_str().ok()) {
                beginning = format!("{kind}, {beginning}");
            }
            Err(ApiError::NotJson {
                place,
                status,
                beginning: shown(&beginning).into_owned(),
            })
        }
    }
}
