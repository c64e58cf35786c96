//! `weir explain`

use std::net::IpAddr;

use serde_json::{Map, Value, json};

use crate::api::{Answer, Api, ApiError};
use crate::exit::Exit;
use crate::output::print;
use crate::table;

/// Shows what would become of a call, and why.
#[derive(Debug, Clone)]
pub struct Explain {
    /// What is called.
    pub resource: String,
    /// The client that calls; none is nobody that is known.
    pub client: Option<String>,
    /// Its tier, in the place of what the registry says.
    pub tier: Option<String>,
    /// The address that it calls from.
    pub ip: Option<IpAddr>,
    /// What the call costs, in requests.
    pub tokens: u64,
    /// Whether the answer is shown as it came.
    pub json: bool,
}

/// The names that a reader looks for first, in that order.
const FIRST: [&str; 18] = [
    "resource",
    "client",
    "registered",
    "tier",
    "ip",
    "tokens",
    "decision",
    "rules",
    "default",
    "status",
    "reason",
    "fate",
    "for",
    "limit",
    "remaining",
    "reset",
    "retry_after",
    "id",
];

impl Explain {
    /// Asks, and shows the answer.
    ///
    /// # Errors
    /// Where there is none.
    pub async fn run(self, api: &Api) -> Result<Exit, String> {
        let answer = self.ask(api).await.map_err(|error| error.to_string())?;
        let text = match &answer {
            Value::Object(told) if !self.json => table::of(&in_short(told), &FIRST),
            other => format!("{other}\n"),
        };
        print(&text)?;
        Ok(Exit::Success)
    }

    async fn ask(&self, api: &Api) -> Result<Value, ApiError> {
        let tokens = self.tokens.to_string();
        let ip = self.ip.map(|ip| ip.to_string());
        let mut query = vec![("resource", self.resource.as_str()), ("tokens", &tokens)];
        query.extend(self.client.as_deref().map(|client| ("client", client)));
        query.extend(self.tier.as_deref().map(|tier| ("tier", tier)));
        query.extend(ip.as_deref().map(|ip| ("ip", ip)));
        let answer = api.get(&["ratelimit", "explain"], &query).await?;
        let place = answer.place.clone();
        match answer.body()? {
            body @ Value::Object(_) => Ok(body),
            _ => Err(Answer::strange(&place, "it explains nothing")),
        }
    }
}

/// The same answer with a few words for each rule in the place of its many fields.
fn in_short(told: &Map<String, Value>) -> Map<String, Value> {
    let mut told = told.clone();
    if let Some(Value::Array(rules)) = told.get_mut("rules") {
        for rule in rules {
            *rule = row(rule);
        }
    }
    told
}

fn row(rule: &Value) -> Value {
    let bucket = rule.get("bucket").unwrap_or(&Value::Null);
    json!({
        "fate": rule["fate"],
        "resource": rule["resource"],
        "for": whom(rule),
        "limit": how_much(rule),
        "remaining": bucket["remaining"],
        "reset": bucket["reset"],
        "retry_after": bucket["retry_after"],
        "id": rule["id"],
        "why": rule["reason"],
    })
}

/// Whom a rule is for, and who shares its bucket.
fn whom(rule: &Value) -> String {
    let text = |name: &str| rule[name].as_str();
    let mut whom = match (text("client"), text("tier")) {
        (Some(client), _) => format!("client {client}"),
        (None, Some(tier)) => format!("tier {tier}"),
        (None, None) => "anyone".to_owned(),
    };
    if let Some(per) = text("per").filter(|per| *per != "client") {
        whom.push_str(&format!(", per {per}"));
    }
    whom
}

/// What a rule allows, and what about it is not as usual.
fn how_much(rule: &Value) -> String {
    let mut told = match rule["limit"].as_u64() {
        None => "exempt".to_owned(),
        Some(limit) => format!("{limit}/{}s", rule["time_window"]),
    };
    if let Some(burst) = rule["burst"].as_u64() {
        told.push_str(&format!(", burst {burst}"));
    }
    if rule["override"] == true {
        told.push_str(", override");
    }
    if let Some(split) = rule["split"].as_u64().filter(|split| *split > 1) {
        told.push_str(&match rule["bucket"]["share"].as_u64() {
            Some(share) => format!(", share {share} of {split}"),
            None => format!(", split {split}"),
        });
    }
    for (name, usual) in [("algorithm", "token_bucket"), ("status", "active")] {
        if let Some(word) = rule[name].as_str().filter(|word| *word != usual) {
            told.push_str(&format!(", {word}"));
        }
    }
    told
}
