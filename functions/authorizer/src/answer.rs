//! What API Gateway is answered.

use limiter::{Decision, headers::Headers};
use limits::rule_set::MOST_MET;
use serde::Serialize;

use crate::event::Door;

/// Who calls, as far as API Gateway's logs know, where no client is known.
const ANONYMOUS: &str = "anonymous";

/// Yes or no, in the form that the asking API reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// For a REST API, and for an HTTP API with payload format 1.0.
    #[serde(rename_all = "camelCase")]
    Policy {
        /// The client.
        principal_id: String,
        /// One statement.
        policy_document: Document,
        /// What gateway responses and the backend read.
        context: Box<Context>,
    },
    /// For an HTTP API with payload format 2.0.
    #[serde(rename_all = "camelCase")]
    Simple {
        /// Whether the call passes.
        is_authorized: bool,
        /// What the backend reads; none where the caller is not known.
        #[serde(skip_serializing_if = "Option::is_none")]
        context: Option<Box<Context>>,
    },
}

/// An IAM policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Document {
    version: &'static str,
    statement: [Statement; 1],
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Statement {
    action: &'static str,
    effect: &'static str,
    resource: String,
}

/// Every value a text, and empty where there is nothing to tell: API Gateway maps no key that is not there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Context {
    /// The client's id, unchanged. Into no header and no body.
    pub client_id: String,
    /// Its tier.
    pub tier: String,
    /// `allowed` or `throttled`.
    pub decision: String,
    /// One word on why.
    pub reason: String,
    /// The rule that is told.
    pub rule_id: String,
    /// Requests a window.
    pub limit: String,
    /// Requests left now.
    pub remaining: String,
    /// Seconds until nothing is counted any more.
    pub reset: String,
    /// Seconds to wait.
    pub retry_after: String,
    /// The value of the `RateLimit` header.
    pub rate_limit: String,
    /// The value of the `RateLimit-Policy` header.
    pub rate_limit_policy: String,
    /// `1` where it was decided without Redis, or by rules that may be old.
    pub degraded: String,
    /// The ids of shadow rules that would have denied, with commas between.
    pub would_deny: String,
}

impl Answer {
    /// What tells a decision at this door.
    pub fn of(decision: &Decision, door: &Door) -> Self {
        let context = Box::new(Context::of(decision));
        match door {
            Door::Policy { method_arn } => Self::Policy {
                principal_id: match decision.client_id() {
                    "" => ANONYMOUS.to_owned(),
                    client => client.to_owned(),
                },
                policy_document: Document {
                    version: "2012-10-17",
                    statement: [Statement {
                        action: "execute-api:Invoke",
                        effect: if decision.allowed { "Allow" } else { "Deny" },
                        resource: whole_stage(method_arn),
                    }],
                },
                context,
            },
            Door::Simple => Self::Simple {
                is_authorized: decision.allowed,
                context: Some(context),
            },
        }
    }

    /// No, to one who is not known, where that is an answer and no error.
    pub(crate) fn unknown() -> Self {
        Self::Simple {
            is_authorized: false,
            context: None,
        }
    }
}

impl Context {
    fn of(decision: &Decision) -> Self {
        let headers = Headers::of(decision);
        let rule = decision.told.and_then(|told| told.rule);
        let would_deny: Vec<String> = decision
            .would_deny
            .iter()
            .take(MOST_MET)
            .map(ToString::to_string)
            .collect();
        Self {
            client_id: decision.client_id().to_owned(),
            tier: decision
                .tier()
                .map(|tier| tier.as_str().to_owned())
                .unwrap_or_default(),
            decision: if decision.allowed {
                "allowed"
            } else {
                "throttled"
            }
            .to_owned(),
            reason: decision.reason.as_str().to_owned(),
            rule_id: rule.map(|id| id.to_string()).unwrap_or_default(),
            limit: headers.limit,
            remaining: headers.remaining,
            reset: headers.reset,
            retry_after: headers.retry_after,
            rate_limit: headers.rate_limit,
            rate_limit_policy: headers.rate_limit_policy,
            degraded: if decision.degraded { "1" } else { "" }.to_owned(),
            would_deny: would_deny.join(","),
        }
    }
}

/// Everything in the stage that a method's ARN lies in. The ARN itself ends with the path as the caller wrote it, where `*`
/// and `${…}` mean something to IAM; and as answers are not cached, the policy is for this one call whatever it says.
fn whole_stage(method_arn: &str) -> String {
    let mut parts = method_arn.splitn(3, '/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(api), Some(stage), Some(_)) => format!("{api}/{stage}/*"),
        _ => "*".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use limiter::{Reason, Told, decision::Policy};
    use limits::{Client, rule::Tier};
    use serde_json::json;

    use super::*;

    const ARN: &str =
        "arn:aws:execute-api:us-east-1:123456789012:api/prod/GET/orders/*/${aws:username}";

    fn rest() -> Door {
        Door::Policy {
            method_arn: ARN.to_owned(),
        }
    }

    fn throttled() -> Decision {
        let rule = "01979c4e-0000-7000-8000-00000000002a".parse().ok();
        let mut client = Client::unregistered("ünï \"client\"");
        client.tier = Some(Tier::Free);
        Decision {
            allowed: false,
            reason: Reason::Limit,
            client: Some(Arc::new(client)),
            told: Some(Told {
                rule,
                limit: Some(10),
                remaining: Some(0),
                reset: Some(Duration::from_millis(59_200)),
                wait: Some(Duration::from_millis(5_001)),
            }),
            policy: vec![Policy {
                rule,
                limit: 10,
                window_seconds: 60,
            }],
            degraded: false,
            would_deny: Vec::new(),
        }
    }

    fn exempt() -> Decision {
        Decision {
            allowed: true,
            reason: Reason::Exempt,
            client: None,
            told: None,
            policy: Vec::new(),
            degraded: true,
            would_deny: vec![
                "01979c4e-0000-7000-8000-000000000001".parse().unwrap(),
                "01979c4e-0000-7000-8000-000000000002".parse().unwrap(),
            ],
        }
    }

    #[test]
    fn a_throttled_call_is_a_policy_that_denies_with_all_that_its_429_needs() {
        let answer = serde_json::to_value(Answer::of(&throttled(), &rest())).unwrap();
        assert_eq!(
            answer,
            json!({
                "principalId": "ünï \"client\"",
                "policyDocument": {
                    "Version": "2012-10-17",
                    "Statement": [{
                        "Action": "execute-api:Invoke",
                        "Effect": "Deny",
                        "Resource": "arn:aws:execute-api:us-east-1:123456789012:api/prod/*",
                    }],
                },
                "context": {
                    "clientId": "ünï \"client\"",
                    "tier": "free",
                    "decision": "throttled",
                    "reason": "limit",
                    "ruleId": "01979c4e-0000-7000-8000-00000000002a",
                    "limit": "10",
                    "remaining": "0",
                    "reset": "60",
                    "retryAfter": "6",
                    "rateLimit": "\"0000002a\";r=0;t=60",
                    "rateLimitPolicy": "\"0000002a\";q=10;w=60",
                    "degraded": "",
                    "wouldDeny": "",
                },
            })
        );
    }

    #[test]
    fn an_allowed_call_is_a_policy_that_allows_with_every_key_there() {
        let answer = serde_json::to_value(Answer::of(&exempt(), &rest())).unwrap();
        assert_eq!(answer["policyDocument"]["Statement"][0]["Effect"], "Allow");
        assert_eq!(answer["principalId"], "anonymous");
        assert_eq!(
            answer["context"],
            json!({
                "clientId": "",
                "tier": "",
                "decision": "allowed",
                "reason": "exempt",
                "ruleId": "",
                "limit": "",
                "remaining": "",
                "reset": "",
                "retryAfter": "",
                "rateLimit": "",
                "rateLimitPolicy": "",
                "degraded": "1",
                "wouldDeny":
                    "01979c4e-0000-7000-8000-000000000001,01979c4e-0000-7000-8000-000000000002",
            })
        );
    }

    #[test]
    fn an_http_api_is_answered_yes_or_no_with_the_same_context() {
        let policy = serde_json::to_value(Answer::of(&throttled(), &rest())).unwrap();
        let simple = serde_json::to_value(Answer::of(&throttled(), &Door::Simple)).unwrap();
        assert_eq!(
            simple,
            json!({ "isAuthorized": false, "context": policy["context"] })
        );
        let yes = serde_json::to_value(Answer::of(&exempt(), &Door::Simple)).unwrap();
        assert_eq!(yes["isAuthorized"], true);
        let unknown = serde_json::to_value(Answer::unknown()).unwrap();
        assert_eq!(unknown, json!({ "isAuthorized": false }));
    }

    #[test]
    fn nothing_but_the_client_and_its_tier_is_of_other_than_plain_characters() {
        for decision in [throttled(), exempt()] {
            let context = serde_json::to_value(Context::of(&decision)).unwrap();
            for (key, value) in context.as_object().unwrap() {
                let quotes = ["rateLimit", "rateLimitPolicy"].contains(&key.as_str());
                let plain = |c: char| {
                    c.is_ascii_alphanumeric() || " .,:;=/_-".contains(c) || (quotes && c == '"')
                };
                let sound = value.as_str().unwrap().chars().all(plain);
                assert!(
                    sound || ["clientId", "tier"].contains(&key.as_str()),
                    "{key}: {value}"
                );
            }
        }
    }

    #[test]
    fn a_policy_names_no_path_of_the_callers() {
        assert_eq!(
            whole_stage(ARN),
            "arn:aws:execute-api:us-east-1:123456789012:api/prod/*"
        );
        assert_eq!(whole_stage(""), "*");
        assert_eq!(whole_stage("arn:aws:execute-api:us-east-1:1:api"), "*");
    }
}
