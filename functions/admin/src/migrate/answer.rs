//! What CloudFormation is told of a custom resource, and how: by a file that it waits for in S3.

use std::time::Duration;

use aws::https::{self, SendError};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use serde::Serialize;
use tokio::time::{sleep, timeout};
use tracing::warn;

use super::MigrateError;
use super::request::Request;

/// What the resource is called: the same for good, for CloudFormation deletes what goes by another name than before.
const PHYSICAL_RESOURCE_ID: &str = "weir-schema";

/// The longest `Reason`, and the longest `Applied`, in characters: CloudFormation takes 4,096 bytes in all.
const LONGEST_TEXT: usize = 400;

/// How often S3 is asked to take the answer.
const TRIES: u32 = 5;
/// How long one try may take.
const PATIENCE: Duration = Duration::from_secs(4);
/// How long to wait before the second try; each wait is twice the one before.
const PAUSE: Duration = Duration::from_millis(200);
/// More of what S3 has to say is not read.
const MOST_BYTES: usize = 64 * 1024;

/// The answer, as CloudFormation reads it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Answer {
    status: Status,
    reason: String,
    physical_resource_id: String,
    stack_id: String,
    request_id: String,
    logical_resource_id: String,
    data: Data,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
enum Status {
    Success,
    Failed,
}

/// What a template can read of the resource.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Data {
    /// The migrations that were applied now, with commas between.
    applied: String,
}

/// Why CloudFormation could not be told.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// The event names nowhere to tell it.
    #[error("ResponseURL {0}")]
    Address(String),
    /// The time was over.
    #[error("no answer within {0:?}")]
    Late(Duration),
    /// S3 was not reached.
    #[error(transparent)]
    Unsent(#[from] SendError),
    /// S3 did not take it.
    #[error("S3 answered {0}")]
    Refused(StatusCode),
}

impl Answer {
    /// The answer to a request after what became of it: the migrations that were applied, or why it failed.
    pub(super) fn of(request: &Request, worked: Result<Vec<String>, MigrateError>) -> Self {
        let (status, reason, applied) = match worked {
            Ok(applied) => (Status::Success, String::new(), applied.join(",")),
            Err(error) => (Status::Failed, error.to_string(), String::new()),
        };
        let known = request.physical_resource_id.as_deref();
        Self {
            status,
            reason: cut(&reason),
            physical_resource_id: known.unwrap_or(PHYSICAL_RESOURCE_ID).to_owned(),
            stack_id: request.stack_id.clone(),
            request_id: request.request_id.clone(),
            logical_resource_id: request.logical_resource_id.clone(),
            data: Data {
                applied: cut(&applied),
            },
        }
    }

    pub(super) fn is_success(&self) -> bool {
        self.status == Status::Success
    }

    /// Puts it where CloudFormation looks for it.
    pub(super) async fn deliver(&self, request: &Request) -> Result<(), DeliveryError> {
        let address = https::address(&request.response_url).map_err(DeliveryError::Address)?;
        // Numbers and texts alone are always JSON.
        let body = serde_json::to_vec(self).unwrap_or_default();
        let mut pause = PAUSE;
        let mut tries = 1;
        loop {
            let mut put = http::Request::new(body.clone().into());
            *put.method_mut() = Method::PUT;
            *put.uri_mut() = address.clone();
            // It is signed without one, and S3 would refuse any other.
            let none = HeaderValue::from_static("");
            put.headers_mut().insert(CONTENT_TYPE, none);
            let error = match timeout(PATIENCE, https::send(put, MOST_BYTES)).await {
                Ok(Ok(answer)) if answer.status().is_success() => return Ok(()),
                Ok(Ok(answer)) => DeliveryError::Refused(answer.status()),
                Ok(Err(error)) => error.into(),
                Err(_) => DeliveryError::Late(PATIENCE),
            };
            if tries == TRIES {
                return Err(error);
            }
            warn!(%error, tries, "CloudFormation was not told");
            sleep(pause).await;
            tries += 1;
            pause *= 2;
        }
    }
}

/// A text on one line, and not too long.
fn cut(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(LONGEST_TEXT).collect()
}
