//! How callers are told: the values of the rate-limit headers.
//!
//! `RateLimit` and `RateLimit-Policy` follow the IETF draft on rate-limit headers (structured fields); the `X-RateLimit-*` are
//! what people's clients read today.

use std::fmt::Write;

use limits::rule_set::MOST_MET;
use uuid::Uuid;

use crate::decision::{Decision, Policy};

/// The values of the headers, each empty where there is nothing to tell. Of `[A-Za-z0-9 .,:;="/_-]` by construction: no text
/// from outside is in them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers {
    /// `X-RateLimit-Limit`: requests a window.
    pub limit: String,
    /// `X-RateLimit-Remaining`: requests left now.
    pub remaining: String,
    /// `X-RateLimit-Reset`: seconds until nothing is counted any more.
    pub reset: String,
    /// `Retry-After` and `X-RateLimit-RetryAfter`: seconds to wait.
    pub retry_after: String,
    /// `RateLimit`: the rule that is told.
    pub rate_limit: String,
    /// `RateLimit-Policy`: each rule that was counted.
    pub rate_limit_policy: String,
}

impl Headers {
    /// The headers that tell a decision.
    pub fn of(decision: &Decision) -> Self {
        let text = |number: Option<u64>| number.map(|n| n.to_string()).unwrap_or_default();
        let Some(told) = &decision.told else {
            return Self::default();
        };
        let rate_limit = match (told.remaining, told.reset_seconds()) {
            (Some(remaining), Some(reset)) => {
                format!("\"{}\";r={remaining};t={reset}", label(told.rule))
            }
            _ => String::new(),
        };
        Self {
            limit: text(told.limit),
            remaining: text(told.remaining),
            reset: text(told.reset_seconds()),
            retry_after: text(told.retry_after_seconds()),
            rate_limit,
            rate_limit_policy: policy(&decision.policy, told.rule),
        }
    }

    /// Names and values of those that are not empty.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("X-RateLimit-Limit", &self.limit),
            ("X-RateLimit-Remaining", &self.remaining),
            ("X-RateLimit-Reset", &self.reset),
            ("X-RateLimit-RetryAfter", &self.retry_after),
            ("Retry-After", &self.retry_after),
            ("RateLimit", &self.rate_limit),
            ("RateLimit-Policy", &self.rate_limit_policy),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (name, value.as_str()))
    }
}

/// A header has room for as many rules as a call may meet by their patterns; of a call that meets more, the first so many and
/// the one that is told.
fn policy(policies: &[Policy], told: Option<Uuid>) -> String {
    let mut text = String::with_capacity(40 * policies.len().min(MOST_MET));
    let shown = policies.iter().enumerate();
    let shown = shown.filter(|(i, policy)| *i < MOST_MET || policy.rule == told);
    for (_, policy) in shown {
        if !text.is_empty() {
            text.push_str(", ");
        }
        let _ = write!(
            text,
            "\"{}\";q={};w={}",
            label(policy.rule),
            policy.limit,
            policy.window_seconds
        );
    }
    text
}

/// The last eight characters of a rule's id: enough to tell the rules of one call apart.
fn label(rule: Option<Uuid>) -> String {
    rule.map_or("default".to_owned(), |id| {
        let mut text = id.to_string();
        text.split_off(text.len() - 8)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::{Reason, Told};
    use std::time::Duration;

    #[test]
    fn a_denial_tells_the_rule_and_whole_seconds_rounded_up() {
        let rule = Some(Uuid::from_u128(0xabc_1234_5678));
        let decision = Decision {
            allowed: false,
            reason: Reason::Limit,
            client: None,
            told: Some(Told {
                rule,
                limit: Some(10),
                remaining: Some(0),
                reset: Some(Duration::from_millis(59_001)),
                wait: Some(Duration::from_secs(2)),
            }),
            policy: vec![
                Policy {
                    rule,
                    limit: 10,
                    window_seconds: 60,
                },
                Policy {
                    rule: None,
                    limit: 100,
                    window_seconds: 86_400,
                },
            ],
            degraded: false,
            would_deny: Vec::new(),
        };
        let headers = Headers::of(&decision);
        assert_eq!(headers.rate_limit, "\"12345678\";r=0;t=60");
        assert_eq!(
            headers.rate_limit_policy,
            "\"12345678\";q=10;w=60, \"default\";q=100;w=86400"
        );
        let named: Vec<_> = headers.named().collect();
        assert!(
            named.contains(&("Retry-After", "2")) && named.contains(&("X-RateLimit-Reset", "60"))
        );
    }
}
