//! Who asks: the IAM principal of the event.

use lambda_http::request::RequestContext;
use limits::registry::principal;

/// Who asks, as the event tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asker {
    /// An IAM user or role.
    Principal(String),
    /// An IAM identity that is neither, such as an account's root: it may ask about nobody.
    Stranger,
    /// There is no identity in the event, or no event at all.
    Anonymous,
}

impl Asker {
    /// Who asks in this context; there is none where no Lambda is in between.
    pub fn of(context: Option<&RequestContext>) -> Self {
        match http_events::iam_identity(context) {
            Some(arn) => principal(arn).map_or(Self::Stranger, Self::Principal),
            None => Self::Anonymous,
        }
    }

    /// About whom it may ask. `anonymous_allowed`: one without an identity about everyone.
    pub fn as_limiter(&self, anonymous_allowed: bool) -> limiter::Asker<'_> {
        match self {
            Self::Principal(principal) => limiter::Asker::Principal(principal),
            Self::Anonymous if anonymous_allowed => limiter::Asker::Anyone,
            Self::Anonymous | Self::Stranger => limiter::Asker::Nobody,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn asker(event: &Value) -> Asker {
        let request = lambda_http::request::from_str(&event.to_string()).unwrap();
        Asker::of(request.extensions().get())
    }

    fn url(authorizer: &Value) -> Value {
        json!({
            "version": "2.0",
            "routeKey": "$default",
            "rawPath": "/",
            "rawQueryString": "",
            "headers": {},
            "requestContext": {
                "accountId": "123456789012",
                "stage": "$default",
                "authorizer": authorizer,
                "http": {
                    "method": "GET", "path": "/", "protocol": "HTTP/1.1",
                    "sourceIp": "192.0.2.1", "userAgent": "x",
                },
            },
            "isBase64Encoded": false,
        })
    }

    #[test]
    fn a_principal_is_known_through_a_function_url_and_through_a_rest_api() {
        let known = Asker::Principal("123456789012/role/orders".to_owned());
        let arn = "arn:aws:sts::123456789012:assumed-role/orders/session";
        assert_eq!(asker(&url(&json!({ "iam": { "userArn": arn } }))), known);
        let rest = json!({
            "resource": "/",
            "path": "/",
            "httpMethod": "GET",
            "requestContext": { "stage": "prod", "httpMethod": "GET", "identity": { "userArn": arn } },
        });
        assert_eq!(asker(&rest), known);
    }

    #[test]
    fn an_identity_that_is_neither_user_nor_role_is_not_taken_for_none() {
        let root = "arn:aws:iam::123456789012:root";
        let stranger = asker(&url(&json!({ "iam": { "userArn": root } })));
        assert_eq!(stranger, Asker::Stranger);
        assert!(matches!(stranger.as_limiter(true), limiter::Asker::Nobody));
        for none in [
            json!(null),
            json!({ "iam": null }),
            json!({ "iam": { "userArn": null } }),
        ] {
            assert_eq!(asker(&url(&none)), Asker::Anonymous);
        }
        assert!(matches!(
            Asker::Anonymous.as_limiter(true),
            limiter::Asker::Anyone
        ));
        assert!(matches!(
            Asker::Anonymous.as_limiter(false),
            limiter::Asker::Nobody
        ));
    }
}
