//! Functions that run elsewhere, under `cargo lambda watch`, invoked as the Lambda service is asked to.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use http::Request;
use http::header::CONTENT_TYPE;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::time::timeout;

use crate::gateway::FunctionError;

/// The functions behind one invocation endpoint.
#[derive(Debug, Clone)]
pub struct Functions {
    client: Client<HttpConnector, Body>,
    endpoint: String,
}

impl Functions {
    /// The functions at `endpoint`, such as `http://127.0.0.1:9000`.
    pub fn at(endpoint: impl Into<String>) -> Self {
        Self {
            client: Client::builder(TokioExecutor::new()).build_http(),
            endpoint: endpoint.into(),
        }
    }

    /// Invokes a function by its name and waits for its answer, `deadline` at most.
    pub async fn invoke(
        &self,
        name: &str,
        event: &Value,
        deadline: Duration,
    ) -> Result<Value, FunctionError> {
        let url = format!("{}/2015-03-31/functions/{name}/invocations", self.endpoint);
        let unreached = |reason: &dyn std::fmt::Display| FunctionError {
            error_type: "Local.Unreached".to_owned(),
            message: format!("{name}: {reason}"),
        };
        let request = Request::post(url)
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(event.to_string()))
            .map_err(|error| unreached(&error))?;
        let asked = async {
            let answer = self.client.request(request).await;
            let answer = answer.map_err(|error| unreached(&error))?;
            let failed = !answer.status().is_success();
            let body = to_bytes(Body::new(answer.into_body()), usize::MAX).await;
            let body = body.map_err(|error| unreached(&error))?;
            let body: Value = serde_json::from_slice(&body).map_err(|error| unreached(&error))?;
            Ok((failed, body))
        };
        let answered = timeout(deadline, asked).await;
        let (failed, body) = answered.unwrap_or_else(|late| Err(unreached(&late)))?;
        if !failed {
            return Ok(body);
        }
        let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
        Err(FunctionError {
            error_type: text("errorType"),
            message: text("errorMessage"),
        })
    }
}
