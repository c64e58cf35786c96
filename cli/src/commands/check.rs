//! `weir check`

use std::net::IpAddr;

use serde_json::{Map, Value, json};

use crate::api::{Answer, Api, ApiError};
use crate::exit::Exit;
use crate::output::print;
use crate::table;

/// Asks whether a call is allowed.
#[derive(Debug, Clone)]
pub struct Check {
    /// The client's id.
    pub client: String,
    /// What it calls.
    pub resource: String,
    /// What the call costs, in requests.
    pub tokens: u64,
    /// The address that the client calls from.
    pub ip: Option<IpAddr>,
    /// Whether nothing is counted.
    pub looks: bool,
}

/// The fields of the answer, in the order of reading.
const FIELDS: [&str; 8] = [
    "status",
    "reason",
    "limit",
    "remaining",
    "reset",
    "retry_after",
    "retry_at",
    "rule_id",
];

impl Check {
    /// Asks, and shows the answer.
    ///
    /// # Errors
    /// Where there is none.
    pub async fn run(self, api: &Api) -> Result<Exit, String> {
        let answer = self.ask(api).await.map_err(|error| error.to_string())?;
        print(&table::of(&answer, &FIELDS))?;
        Ok(if answer["status"] == "allowed" {
            Exit::Success
        } else {
            Exit::Blocked
        })
    }

    async fn ask(&self, api: &Api) -> Result<Map<String, Value>, ApiError> {
        let path = ["ratelimit", "status", &self.client];
        let answer = if self.looks {
            let tokens = self.tokens.to_string();
            let ip = self.ip.map(|ip| ip.to_string());
            let mut query = vec![("resource", self.resource.as_str()), ("tokens", &tokens)];
            query.extend(ip.as_deref().map(|ip| ("ip", ip)));
            api.get(&path, &query).await?
        } else {
            let body = json!({ "resource": self.resource, "tokens": self.tokens, "ip": self.ip });
            api.post(&path, &body).await?
        };
        let place = answer.place.clone();
        let told = answer.body.get("status").and_then(Value::as_str);
        let decided = matches!(
            (answer.status.as_u16(), told),
            (200, Some("allowed" | "blocked")) | (429, Some("blocked"))
        );
        let body = if decided { answer.body } else { answer.body()? };
        match body {
            Value::Object(body) if decided => Ok(body),
            _ => Err(Answer::strange(
                &place,
                "it says neither allowed nor blocked",
            )),
        }
    }
}
