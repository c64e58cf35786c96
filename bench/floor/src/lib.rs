//! What the bare handlers have in common: the least that they must read, and answer.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// The least script that limits anything: the generic cell rate algorithm over one key, its state one integer, its reply another.
/// `KEYS[1]` the bucket; `ARGV` microseconds a request, microseconds of burst. Replies how full it is in microseconds, or -1.
pub const GCRA: &str = "
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local arrival = tonumber(redis.call('GET', KEYS[1]) or now)
if arrival < now then arrival = now end
local next = arrival + tonumber(ARGV[1])
if next - now > tonumber(ARGV[2]) then return -1 end
redis.call('SET', KEYS[1], string.format('%d', next), 'PX', 60000)
return next - now
";

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
