//! One question to the check API, and the answer.

use std::fmt;
use std::time::{Duration, SystemTime};

use aws::https::{self, SendError};
use aws::signed_requests::SignError;
use aws::signer::Signer;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Method, Request, Uri};
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

/// How long one question may take, a cold start of the other side included.
const PATIENCE: Duration = Duration::from_secs(5);

/// More is no answer of the check API.
const MOST_BYTES: usize = 16 * 1024;

/// May a client make such a call?
#[derive(Debug)]
pub struct Question {
    /// Of the check API, without a slash at its end.
    address: String,
    body: String,
    signer: Signer,
}

/// What was answered. What is not there, or is no answer of the check API, is none.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub(crate) status: u16,
    /// `Retry-After`, in seconds.
    pub(crate) retry_after_header: Option<u64>,
    pub(crate) body: Body,
}

/// The fields of an answer that say whether a limit holds.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Body {
    pub(crate) status: Option<String>,
    pub(crate) limit: Option<u64>,
    pub(crate) reason: Option<String>,
    pub(crate) retry_after: Option<u64>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    /// It took too long.
    #[error("no answer within {} s", PATIENCE.as_secs())]
    Late,
    /// Nobody was reached.
    #[error(transparent)]
    Unsent(#[from] SendError),
    /// The question could not be made.
    #[error("{0}")]
    Unasked(String),
}

impl From<SignError> for QuestionError {
    fn from(error: SignError) -> Self {
        Self::Unasked(error.to_string())
    }
}

impl Question {
    /// About a resource, asked at an address, by a role.
    pub(crate) fn new(address: String, resource: &str, signer: Signer) -> Self {
        Self {
            address,
            body: json!({ "resource": resource }).to_string(),
            signer,
        }
    }

    /// Asks for a client, whose id needs no escaping.
    pub(crate) async fn ask(&self, client: &str) -> Result<Answer, QuestionError> {
        let address = format!("{}/ratelimit/status/{client}", self.address);
        let address: Uri = address
            .parse()
            .map_err(|_| QuestionError::Unasked("CHECK_URL has no room for a path".to_owned()))?;
        let mut request = Request::new(self.body.clone().into());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = address;
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(CONTENT_TYPE, json);
        self.signer
            .sign("lambda", &mut request, SystemTime::now())?;
        let answer = timeout(PATIENCE, https::send(request, MOST_BYTES)).await;
        let answer = answer.map_err(|_| QuestionError::Late)??;
        let header = answer.headers().get(RETRY_AFTER);
        Ok(Answer {
            status: answer.status().as_u16(),
            retry_after_header: header.and_then(|value| value.to_str().ok()?.parse().ok()),
            body: serde_json::from_slice(answer.body()).unwrap_or_default(),
        })
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.status)?;
        if let Some(status) = &self.body.status {
            write!(out, " {status:?}")?;
        }
        if let Some(reason) = &self.body.reason {
            write!(out, ", reason {reason:?}")?;
        }
        if let Some(limit) = self.body.limit {
            write!(out, ", limit {limit}")?;
        }
        for (name, seconds) in [
            ("Retry-After", self.retry_after_header),
            ("retry_after", self.body.retry_after),
        ] {
            if let Some(seconds) = seconds {
                write!(out, ", {name} {seconds} s")?;
            }
        }
        Ok(())
    }
}
