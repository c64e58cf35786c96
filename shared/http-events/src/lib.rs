//! What Lambda is sent over HTTP, as axum's routers take it: REST API (v1), HTTP API (v2), function URL and `cargo lambda watch`.
//!
//! [`handle`] is the way from an event to a router and back; [`Body`] and [`Named`] are how all routes read, [`Problem`] is how
//! they say no. Apart from the functions, so that the authorizer takes no HTTP server along.

mod body;
mod path;
mod problem;

pub use body::Body;
pub use path::Named;
pub use problem::Problem;

use axum::Router;
use axum::body::to_bytes;
use axum::http::uri::PathAndQuery;
use axum::http::{Response, StatusCode, Uri};
use lambda_http::request::RequestContext;
use lambda_http::{Request, RequestExt};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use tower::ServiceExt;

/// What cannot stand in a URI's path. `%` stays: what is escaped already is escaped enough.
const NOT_IN_A_PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Answers one request.
///
/// # Errors
/// None that a caller can cause: every request has an answer.
pub async fn handle(
    router: Router,
    request: Request,
) -> Result<Response<lambda_http::Body>, lambda_http::Error> {
    let Ok(response) = router.oneshot(as_sent(request)).await;
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, usize::MAX).await?;
    // All answers are JSON. As text they travel as they are, whatever the event's kind makes of their content type.
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(Response::from_parts(parts, lambda_http::Body::Text(text)))
}

/// A router that says no by a [`Problem`] where no route covers the path, or the route does not take the method.
pub fn with_fallbacks<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    router
        .fallback(async |request: axum::extract::Request| {
            Problem::not_found(format!("there is nothing at {}", request.uri().path()))
        })
        .method_not_allowed_fallback(async |request: axum::extract::Request| {
            let detail = format!("this path does not take {}", request.method());
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail)
        })
}

/// The ARN of the IAM identity that called, where the event carries one. Without an event there is none.
pub fn iam_identity(context: Option<&RequestContext>) -> Option<&str> {
    let arn = match context? {
        RequestContext::ApiGatewayV1(context) => context.identity.user_arn.as_deref(),
        RequestContext::ApiGatewayV2(context) => context
            .authorizer
            .as_ref()
            .and_then(|authorizer| authorizer.iam.as_ref())
            .and_then(|iam| iam.user_arn.as_deref()),
        _ => None,
    };
    arn.filter(|arn| !arn.is_empty())
}

/// The request with the path that the caller sent, as far as the event has kept it: without the stage, and not resolved.
fn as_sent(request: Request) -> axum::extract::Request {
    let path = path(&request);
    let query = request
        .uri()
        .query()
        .map(|query| format!("?{query}"))
        .unwrap_or_default();
    let (mut parts, body) = request.into_parts();
    if let Ok(target) = PathAndQuery::try_from(format!("{path}{query}")) {
        parts.uri = Uri::from(target);
    }
    axum::extract::Request::from_parts(parts, axum::body::Body::new(body))
}

fn path(request: &Request) -> String {
    let mut path = request.raw_http_path();
    // A REST API leaves the stage out of `path`, an HTTP API puts it into `rawPath`.
    if let Some(RequestContext::ApiGatewayV2(context)) = request.request_context_ref()
        && let Some(stage) = context
            .stage
            .as_deref()
            .filter(|stage| *stage != "$default")
        && let Some(rest) = path
            .strip_prefix('/')
            .and_then(|path| path.strip_prefix(stage))
        && (rest.is_empty() || rest.starts_with('/'))
    {
        path = rest;
    }
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    let mut sent = String::with_capacity(path.len());
    let mut rest = path.as_str();
    // A `%` that begins no escape was decoded on the way.
    while let Some(at) = rest.find('%') {
        let escape = rest.as_bytes().get(at + 1..at + 3);
        let is_one = escape.is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit));
        sent.push_str(&rest[..at]);
        sent.push_str(if is_one { "%" } else { "%25" });
        rest = &rest[at + 1..];
    }
    sent.push_str(rest);
    utf8_percent_encode(&sent, NOT_IN_A_PATH).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn uri(event: &Value) -> String {
        let request = lambda_http::request::from_str(&event.to_string()).unwrap();
        as_sent(request).uri().to_string()
    }

    fn rest(path: &str) -> String {
        uri(&json!({
            "resource": "/{proxy+}",
            "path": path,
            "httpMethod": "GET",
            "headers": { "Host": "api" },
            "queryStringParameters": { "resource": "GET /a" },
            "requestContext": { "stage": "prod", "httpMethod": "GET", "identity": {} },
        }))
    }

    fn http(path: &str, stage: &str) -> String {
        uri(&json!({
            "version": "2.0",
            "routeKey": "$default",
            "rawPath": path,
            "rawQueryString": "tokens=2",
            "headers": { "host": "api" },
            "requestContext": {
                "stage": stage,
                "http": {
                    "method": "GET", "path": path, "protocol": "HTTP/1.1",
                    "sourceIp": "192.0.2.1", "userAgent": "x",
                },
            },
            "isBase64Encoded": false,
        }))
    }

    #[test]
    fn the_stage_is_left_out_where_the_event_has_put_it() {
        assert_eq!(http("/prod/x", "prod"), "/x?tokens=2");
        assert_eq!(http("/prod", "prod"), "/?tokens=2");
        assert_eq!(http("/production/x", "prod"), "/production/x?tokens=2");
        assert_eq!(http("/prod/x", "$default"), "/prod/x?tokens=2");
        // A REST API never puts it into `path`.
        assert_eq!(rest("/ratelimit/x"), "/ratelimit/x?resource=GET+%2Fa");
        assert_eq!(rest("/prod/x"), "/prod/x?resource=GET+%2Fa");
    }

    #[test]
    fn a_path_stays_as_it_was_sent_and_what_was_decoded_on_the_way_is_escaped() {
        for (path, sent) in [
            ("/a%2Fb", "/a%2Fb"),
            ("/a/../%2e%2e", "/a/../%2e%2e"),
            ("/a b", "/a%20b"),
            ("/100%", "/100%25"),
            ("/\u{fc}", "/%C3%BC"),
            ("", "/"),
        ] {
            assert_eq!(rest(path), format!("{sent}?resource=GET+%2Fa"));
        }
    }
}
