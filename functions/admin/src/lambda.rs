//! What API Gateway sends, as the routers take it: REST API (v1), HTTP API (v2), function URL and `cargo lambda watch`.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::uri::PathAndQuery;
use axum::http::{Response, Uri};
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
    axum::extract::Request::from_parts(parts, Body::new(body))
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
