//! What an authorizer's answer means, judged as API Gateway judges it.

use serde_json::{Map, Value};

use super::response::Refusal;

/// How a function failed, as the Lambda service tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionError {
    /// Its kind.
    pub error_type: String,
    /// The message; `Unauthorized` alone has a meaning to API Gateway.
    pub message: String,
}

/// What API Gateway makes of an authorizer's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The call goes on to its backend, which finds this under `requestContext.authorizer`.
    Allowed(Map<String, Value>),
    /// It does not.
    Refused {
        /// Why.
        refusal: Refusal,
        /// What a gateway response finds under `$context.authorizer`.
        context: Map<String, Value>,
    },
}

impl Verdict {
    /// The verdict on a call to `method_arn`.
    pub fn of(answer: Result<&Value, &FunctionError>, method_arn: &str) -> Self {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) if error.message == "Unauthorized" => {
                return Self::refused(Refusal::Unauthorized);
            }
            Err(_) => return Self::refused(Refusal::AuthorizerFailure),
        };
        match (context(answer), allows(answer, method_arn)) {
            (Some(context), Some(true)) => Self::Allowed(context),
            (Some(context), Some(false)) => Self::Refused {
                refusal: Refusal::AccessDenied,
                context,
            },
            _ => Self::refused(Refusal::AuthorizerConfigurationError),
        }
    }

    fn refused(refusal: Refusal) -> Self {
        Self::Refused {
            refusal,
            context: Map::new(),
        }
    }
}

/// The context with every value as text, and the principal beside it; None if API Gateway would not take it.
fn context(answer: &Value) -> Option<Map<String, Value>> {
    let principal = answer["principalId"].as_str().filter(|id| !id.is_empty())?;
    let mut flat = Map::new();
    match answer.get("context") {
        None => {}
        Some(Value::Object(context)) => {
            for (name, value) in context {
                let text = match value {
                    Value::String(text) => text.clone(),
                    Value::Bool(_) | Value::Number(_) => value.to_string(),
                    Value::Null | Value::Array(_) | Value::Object(_) => return None,
                };
                flat.insert(name.clone(), Value::String(text));
            }
        }
        Some(_) => return None,
    }
    flat.insert("principalId".to_owned(), Value::from(principal));
    Some(flat)
}

/// Whether the policy lets the call through: some statement allows it and none denies it. None if it is no policy.
fn allows(answer: &Value, method_arn: &str) -> Option<bool> {
    let policy = &answer["policyDocument"];
    policy["Version"].as_str()?;
    let statements = match &policy["Statement"] {
        Value::Array(statements) => statements.as_slice(),
        Value::Object(_) => std::slice::from_ref(&policy["Statement"]),
        _ => return None,
    };
    let (mut allowed, mut denied) = (false, false);
    for statement in statements {
        let statement = statement.as_object()?;
        // Only what an authorizer of ours writes is judged; a condition, even an empty one, is not.
        if statement
            .keys()
            .any(|key| !["Sid", "Effect", "Action", "Resource"].contains(&key.as_str()))
        {
            return None;
        }
        let applies = any_fits(statement.get("Action")?, "execute-api:Invoke", true)?
            && any_fits(statement.get("Resource")?, method_arn, false)?;
        match statement.get("Effect")?.as_str()? {
            "Allow" => allowed |= applies,
            "Deny" => denied |= applies,
            _ => return None,
        }
    }
    Some(allowed && !denied)
}

fn any_fits(patterns: &Value, text: &str, any_case: bool) -> Option<bool> {
    let one = |pattern: &Value| {
        let pattern = pattern.as_str()?;
        Some(if any_case {
            fits(&pattern.to_lowercase(), &text.to_lowercase())
        } else {
            fits(pattern, text)
        })
    };
    match patterns {
        Value::Array(patterns) => patterns
            .iter()
            .try_fold(false, |found, pattern| Some(one(pattern)? || found)),
        pattern => one(pattern),
    }
}

/// IAM's wildcards: `*` is any text, `?` one character.
fn fits(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut here) = (0, 0);
    // Where the last `*` stands, and how much of the text it has taken: the only place to come back to.
    let mut star: Option<(usize, usize)> = None;
    while here < text.len() {
        if pattern.get(at) == Some(&'*') {
            star = Some((at, here));
            at += 1;
        } else if pattern
            .get(at)
            .is_some_and(|letter| *letter == '?' || *letter == text[here])
        {
            at += 1;
            here += 1;
        } else if let Some((place, taken)) = star {
            star = Some((place, taken + 1));
            at = place + 1;
            here = taken + 1;
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|letter| *letter == '*')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ARN: &str = "arn:aws:execute-api:us-east-1:123456789012:api/prod/GET/orders/1";

    fn policy(effect: &str, resource: Value) -> Value {
        json!({
            "principalId": "demo",
            "policyDocument": {"Version": "2012-10-17", "Statement": [
                {"Action": "execute-api:Invoke", "Effect": effect, "Resource": resource}
            ]},
            "context": {"limit": "10", "count": 3, "on": true},
        })
    }

    fn refusal(answer: &Value) -> Option<Refusal> {
        match Verdict::of(Ok(answer), ARN) {
            Verdict::Allowed(_) => None,
            Verdict::Refused { refusal, .. } => Some(refusal),
        }
    }

    #[test]
    fn an_allowed_call_carries_the_context_as_text() {
        let Verdict::Allowed(context) = Verdict::of(Ok(&policy("Allow", json!(ARN))), ARN) else {
            panic!("not allowed");
        };
        assert_eq!(
            Value::Object(context),
            json!({"limit": "10", "count": "3", "on": "true", "principalId": "demo"})
        );
    }

    #[test]
    fn a_denied_call_carries_it_too() {
        let Verdict::Refused { refusal, context } =
            Verdict::of(Ok(&policy("Deny", json!([ARN]))), ARN)
        else {
            panic!("not refused");
        };
        assert_eq!(refusal, Refusal::AccessDenied);
        assert_eq!(context["limit"], "10");
    }

    #[test]
    fn a_policy_covers_what_its_wildcards_cover() {
        for (resource, allowed) in [
            ("*", true),
            ("arn:aws:execute-api:*:*:api/prod/*", true),
            (
                "arn:aws:execute-api:us-east-1:123456789012:api/*/GET/orders/?",
                true,
            ),
            (
                "arn:aws:execute-api:us-east-1:123456789012:api/prod/POST/*",
                false,
            ),
            (
                "arn:aws:execute-api:us-east-1:123456789012:api/prod/GET/orders",
                false,
            ),
            (
                "arn:aws:execute-api:us-east-1:123456789012:api/prod/GET/orders/1?",
                false,
            ),
        ] {
            let wanted = (!allowed).then_some(Refusal::AccessDenied);
            assert_eq!(
                refusal(&policy("Allow", json!(resource))),
                wanted,
                "{resource}"
            );
        }
    }

    #[test]
    fn a_denial_outweighs_and_silence_denies() {
        let mut answer = policy("Allow", json!("*"));
        let denial = json!({"Action": ["execute-api:*"], "Effect": "Deny", "Resource": ARN});
        answer["policyDocument"]["Statement"]
            .as_array_mut()
            .unwrap()
            .push(denial);
        assert_eq!(refusal(&answer), Some(Refusal::AccessDenied));
        answer["policyDocument"]["Statement"] = json!([]);
        assert_eq!(refusal(&answer), Some(Refusal::AccessDenied));
    }

    #[test]
    fn an_answer_that_api_gateway_cannot_read_is_a_configuration_error() {
        let good = policy("Allow", json!("*"));
        for (pointer, bad) in [
            ("/context", json!(null)),
            ("/context", json!([])),
            ("/context/limit", json!({"a": 1})),
            ("/context/limit", json!(null)),
            ("/principalId", json!("")),
            ("/principalId", json!(null)),
            ("/policyDocument", json!(null)),
            ("/policyDocument/Version", json!(null)),
            ("/policyDocument/Statement", json!("all")),
            ("/policyDocument/Statement/0/Effect", json!("Perhaps")),
            ("/policyDocument/Statement/0/Action", json!(null)),
        ] {
            let mut answer = good.clone();
            *answer.pointer_mut(pointer).unwrap() = bad;
            assert_eq!(
                refusal(&answer),
                Some(Refusal::AuthorizerConfigurationError),
                "{pointer}"
            );
        }
        let mut answer = good;
        answer["policyDocument"]["Statement"][0]["Condition"] = json!(null);
        assert_eq!(
            refusal(&answer),
            Some(Refusal::AuthorizerConfigurationError)
        );
    }

    #[test]
    fn of_the_errors_one_word_means_unauthorized() {
        for (message, wanted) in [
            ("Unauthorized", Refusal::Unauthorized),
            ("unauthorized", Refusal::AuthorizerFailure),
            ("Unauthorized: no key", Refusal::AuthorizerFailure),
            ("StoreUnavailable", Refusal::AuthorizerFailure),
        ] {
            let error = FunctionError {
                error_type: "E".to_owned(),
                message: message.to_owned(),
            };
            let Verdict::Refused { refusal, context } = Verdict::of(Err(&error), ARN) else {
                panic!("{message} allowed");
            };
            assert_eq!(refusal, wanted, "{message}");
            assert!(context.is_empty());
        }
    }
}
