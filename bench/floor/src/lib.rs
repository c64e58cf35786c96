//! What the bare handlers have in common: the least that they must read, and answer.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// The least script that limits anything.
pub const GCRA: &str = include_str!("gcra.lua");

/// What a bare handler reads of an event.
#[derive(Debug, Deserialize)]
pub struct Event {
    headers: HashMap<String, String>,
}

impl Event {
    /// The API key; empty where there is none.
    pub fn api_key(&self) -> &str {
        self.headers.get("x-api-key").map_or("", String::as_str)
    }
}

/// A policy, as an authorizer must give it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    principal_id: &'static str,
    policy_document: Document,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Document {
    version: &'static str,
    statement: [Statement; 1],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Statement {
    action: &'static str,
    effect: &'static str,
    resource: &'static str,
}

impl Answer {
    /// Yes or no, to anything.
    pub fn new(allowed: bool) -> Self {
        Self {
            principal_id: "anonymous",
            policy_document: Document {
                version: "2012-10-17",
                statement: [Statement {
                    action: "execute-api:Invoke",
                    effect: if allowed { "Allow" } else { "Deny" },
                    resource: "*",
                }],
            },
        }
    }
}
