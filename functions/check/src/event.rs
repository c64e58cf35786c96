//! Between an event of API Gateway or a function URL and the routes.

use axum::{Router, body::to_bytes};
use lambda_http::{
    Error, Request, RequestExt, Response,
    http::uri::{PathAndQuery, Uri},
    request::RequestContext,
};
use tower::ServiceExt;

/// Takes one event through the routes.
///
/// # Errors
/// None that a caller could bring about.
pub async fn answer(routes: Router, request: Request) -> Result<Response<String>, Error> {
    let (parts, body) = routes.oneshot(without_stage(request)).await?.into_parts();
    let body = to_bytes(body, usize::MAX).await?;
    Ok(Response::from_parts(parts, String::from_utf8(body.into())?))
}

/// The request as the routes know it: without the stage in front of its path.
fn without_stage(mut request: Request) -> Request {
    // `lambda_http` puts the stage in front of every path that does not begin with it.
    let stage = match request.request_context_ref() {
        // In a REST API the path of an event never has it: one that begins so is the caller's own.
        Some(RequestContext::ApiGatewayV1(context)) => context
            .stage
            .as_deref()
            .filter(|stage| shorter(request.raw_http_path(), stage).is_none()),
        Some(RequestContext::ApiGatewayV2(context)) => context.stage.as_deref(),
        _ => None,
    };
    let path = stage.and_then(|stage| shorter(request.uri().path(), stage));
    let Some(path) = path else {
        return request;
    };
    let path = match request.uri().query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let mut parts = request.uri().clone().into_parts();
    parts.path_and_query = path.parse::<PathAndQuery>().ok();
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
    request
}

/// A path without its first segment, if that is the stage.
fn shorter<'a>(path: &'a str, stage: &str) -> Option<&'a str> {
    match path.strip_prefix('/')?.strip_prefix(stage)? {
        "" => Some("/"),
        rest => rest.starts_with('/').then_some(rest),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn path(event: &Value) -> String {
        let request = lambda_http::request::from_str(&event.to_string()).unwrap();
        without_stage(request).uri().to_string()
    }

    fn rest(path: &str) -> Value {
        json!({
            "resource": "/{proxy+}",
            "path": path,
            "httpMethod": "GET",
            "headers": { "Host": "api" },
            "queryStringParameters": { "resource": "GET /a" },
            "requestContext": { "stage": "prod", "httpMethod": "GET", "identity": {} },
        })
    }

    fn http(path: &str, stage: &str) -> Value {
        json!({
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
        })
    }

    #[test]
    fn a_path_is_as_it_was_called() {
        assert_eq!(
            path(&rest("/ratelimit/x")),
            "https://api/ratelimit/x?resource=GET+%2Fa"
        );
        assert_eq!(
            path(&rest("/prod/x")),
            "https://api/prod/x?resource=GET+%2Fa"
        );
        assert_eq!(
            path(&rest("/production")),
            "https://api/production?resource=GET+%2Fa"
        );
        assert_eq!(path(&http("/prod/x", "prod")), "https://api/x?tokens=2");
        assert_eq!(
            path(&http("/x%2Fy", "$default")),
            "https://api/x%2Fy?tokens=2"
        );
    }
}
