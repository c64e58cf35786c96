//! Functions that run elsewhere, under `cargo lambda watch`, invoked as the Lambda service is asked to.

use std::time::Duration;

use serde_json::Value;

use crate::gateway::FunctionError;

/// The functions behind one invocation endpoint.
#[derive(Debug, Clone)]
pub struct Functions {
    client: reqwest::Client,
    endpoint: String,
}

impl Functions {
    /// The functions at `endpoint`, such as `http://127.0.0.1:9000`.
    pub fn at(endpoint: impl Into<String>) -> Self {
        Self {
            client: reqwest::Client::new(),
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
        let asked = self.client.post(url).timeout(deadline).json(event).send();
        let answer = asked.await.map_err(|error| unreached(name, error))?;
        let failed = !answer.status().is_success();
        let body: Value = answer
            .json()
            .await
            .map_err(|error| unreached(name, error))?;
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

fn unreached(name: &str, error: reqwest::Error) -> FunctionError {
    FunctionError {
        error_type: "Local.Unreached".to_owned(),
        message: format!("{name}: {}", error.without_url()),
    }
}
