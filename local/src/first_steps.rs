//! What is printed at the start: lines to copy into a shell.

use std::fmt;

use uuid::Uuid;

use crate::demo::{FREE, PAID};

/// The lines for `make run`. Each works as it is printed.
#[derive(Debug, Clone)]
pub struct FirstSteps {
    /// The protected API, as `http://127.0.0.1:8080`.
    pub protected: String,
    /// The control and check APIs, the same way.
    pub control: String,
    /// The rule of the free tier.
    pub free_rule: Uuid,
}

impl FirstSteps {
    /// What there is to show, and the line that shows it.
    pub fn lines(&self) -> [(String, String); 5] {
        let Self {
            protected,
            control,
            free_rule,
        } = self;
        let limit = FREE.limit;
        let doubled = limit * 2;
        let call = format!("-H 'x-api-key: {}' {protected}/orders/1", FREE.key);
        let json = "-H 'content-type: application/json'";
        [
            (
                "An allowed call; the backend echoes what it was sent, the authorizer's context included:".to_owned(),
                format!("curl -iw '\\n' {call}"),
            ),
            (
                format!("{limit} a minute are allowed: the last of these is a 429 with Retry-After"),
                format!(
                    "for i in $(seq {}); do curl -si {call} | grep -iE '^(http|retry-after|x-ratelimit)'; done",
                    limit + 1
                ),
            ),
            (
                "Without a key, 401:".to_owned(),
                format!("curl -iw '\\n' {protected}/orders/1"),
            ),
            (
                format!("A rule change, from {limit} to {doubled} a minute, in effect at the next call:"),
                format!(
                    "curl -iw '\\n' -X PUT {json} -d '{{\"resource\": \"*\", \"tier\": \"free\", \"limit\": {doubled}, \"time_window\": 60}}' {control}/ratelimit/rules/{free_rule} && curl -iw '\\n' {call}"
                ),
            ),
            (
                "The same question for a service without a gateway:".to_owned(),
                format!(
                    "curl -iw '\\n' -X POST {json} -d '{{\"resource\": \"GET /orders/1\", \"tokens\": 1}}' {control}/ratelimit/status/{}",
                    PAID.client
                ),
            ),
        ]
    }
}

impl fmt::Display for FirstSteps {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "Protected by the authorizer: {}\nControl and check, without IAM: {}",
            self.protected, self.control
        )?;
        for (what, line) in self.lines() {
            write!(out, "\n# {what}\n{line}\n")?;
        }
        write!(out, "\nCtrl-C ends it.")
    }
}
