//! What an event tells of its request.
//!
//! Read by ourselves, since nothing that a caller can send (a quote in a query, a header named with a space, a null) may make
//! the reading fail: what cannot stand in a request is escaped, or left out.

use std::borrow::Cow;

use aws::lenient::{Object, items, text};
use axum::http::header::HOST;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lambda_http::aws_lambda_events::apigw::{ApiGatewayProxyRequest, ApiGatewayV2httpRequest};
use lambda_http::request::LambdaRequest;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::value::RawValue;

use crate::problem::Problem;

/// What cannot stand in a URI's query. `%` stays: what is escaped already is escaped enough.
const NOT_IN_A_QUERY: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>');

/// What cannot stand in a URI's path.
const NOT_IN_A_PATH: &AsciiSet = &NOT_IN_A_QUERY
    .add(b'?')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The ARN of the IAM identity that called: an extension of the requests whose event has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity(pub String);

/// A request as its event tells of it.
pub(crate) struct Sent {
    /// All that is sure to make a request, in the form that tells what its answer must look like.
    pub(crate) event: LambdaRequest,
    /// The path that the caller sent, as far as the event has kept it and not resolved, and the query. Or why there is no request.
    pub(crate) target: Result<PathAndQuery, Problem>,
    /// Who calls.
    pub(crate) identity: Option<Identity>,
}

/// The request that an event tells of; `None` where it tells of none.
pub(crate) fn sent(json: &str) -> Option<Sent> {
    let event = Object::read(json);
    let context = event.object("requestContext");
    // An HTTP API, or a function URL; else a REST API.
    let http = context.object("http");
    let http_method = http.text("method");
    let (method, target, identity) = if let Some(method) = &http_method {
        let path = event.text("rawPath").or_else(|| http.text("path"));
        let path = path.unwrap_or_default();
        let query = match event.text("rawQueryString") {
            Some(query) => query,
            None => pairs(&event).into(),
        };
        let target = target(without_stage(&path, &context), &query);
        let identity = context.object("authorizer").object("iam").text("userArn");
        (method.clone(), target, identity)
    } else {
        let method = event
            .text("httpMethod")
            .or_else(|| context.text("httpMethod"))?;
        // A REST API leaves the stage out of `path`.
        let path = event.text("path").unwrap_or_default();
        let target = target(&path, &pairs(&event));
        let identity = context.object("identity").text("userArn");
        (method, target, identity)
    };
    let identity = identity.filter(|arn| !arn.is_empty());
    let method = Method::from_bytes(method.as_bytes())
        .map_err(|_| Problem::new(StatusCode::BAD_REQUEST, "the method is none of HTTP"));
    let body = body(&event);
    let (method, body, target) = match (method, body) {
        (Ok(method), Ok(body)) => (method, body, target),
        (Err(problem), _) | (_, Err(problem)) => (Method::default(), None, Err(problem)),
    };
    let (body, is_base64_encoded) = body.map_or((None, false), |(body, is)| (Some(body), is));
    let headers = headers(&event);
    let event = if http_method.is_some() {
        let mut event = ApiGatewayV2httpRequest::default();
        event.request_context.http.method = method;
        (event.headers, event.body) = (headers, body);
        event.is_base64_encoded = is_base64_encoded;
        LambdaRequest::ApiGatewayV2(event)
    } else {
        let mut event = ApiGatewayProxyRequest::default();
        (event.http_method, event.headers, event.body) = (method, headers, body);
        event.is_base64_encoded = is_base64_encoded;
        LambdaRequest::ApiGatewayV1(event)
    };
    Some(Sent {
        event,
        target,
        identity: identity.map(|arn| Identity(arn.into_owned())),
    })
}

fn target(path: &str, query: &str) -> Result<PathAndQuery, Problem> {
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut target = format!("{slash}{}", escaped(path));
    if !query.is_empty() {
        target.push('?');
        target.extend(utf8_percent_encode(query, NOT_IN_A_QUERY));
    }
    // All else that could be wrong with it is escaped.
    PathAndQuery::try_from(target).map_err(|_| {
        Problem::new(
            StatusCode::URI_TOO_LONG,
            "the path and the query are too long",
        )
    })
}

/// A path as it stands in a URI. A `%` that begins no escape was decoded on the way.
fn escaped(path: &str) -> String {
    let mut sent = String::with_capacity(path.len());
    let mut rest = path;
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

/// The path without the stage, which an HTTP API puts in front of it.
fn without_stage<'a>(path: &'a str, context: &Object<'_>) -> &'a str {
    let stage = context.text("stage").unwrap_or_default();
    if stage.is_empty() || stage == "$default" {
        return path;
    }
    let rest = path
        .strip_prefix('/')
        .and_then(|path| path.strip_prefix(stage.as_ref()));
    match rest {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
        _ => path,
    }
}

/// The query of an event that holds it decoded. A parameter without a text is told all the same, so that it is not overlooked.
fn pairs(event: &Object<'_>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    let members = ["multiValueQueryStringParameters", "queryStringParameters"];
    each(event, members, |name, value| {
        query.append_pair(name, &value);
    });
    query.finish()
}

/// The headers, save the host, of which a request would be made that no path of ours depends on, and those whose name cannot be one. A character that cannot stand in a value becomes a `?`, since a
/// precondition that is not understood must not count as none.
fn headers(event: &Object<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    each(event, ["multiValueHeaders", "headers"], |name, value| {
        let printed: Vec<u8> = value
            .bytes()
            .map(|byte| match byte {
                b'\t' => byte,
                byte if byte.is_ascii_control() => b'?',
                byte => byte,
            })
            .collect();
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(&printed))
            && name != HOST
        {
            // More than fit into a map are more than a gateway lets in.
            let _ = headers.try_append(name, value);
        }
    });
    headers
}

/// Every value of two members of an event: of the one that has several for a name, and of the one that has the last of them. A
/// name in both counts in the first.
fn each(
    event: &Object<'_>,
    [several, single]: [&str; 2],
    mut found: impl FnMut(&str, Cow<'_, str>),
) {
    let several = event.object(several);
    let mut known = Vec::new();
    for (name, values) in several.members() {
        let values = items(values).unwrap_or_else(|| vec![values]);
        for value in values.into_iter().filter(|value| value.get() != "null") {
            found(name, words(value));
            known.push(name);
        }
    }
    let single = event.object(single);
    for (name, value) in single.members() {
        if !known.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            found(name, words(value));
        }
    }
}

/// A value as a text; one of another kind as it was written.
fn words(value: &RawValue) -> Cow<'_, str> {
    text(value).unwrap_or(Cow::Borrowed(value.get()))
}

/// The body, and whether it is Base64.
fn body(event: &Object<'_>) -> Result<Option<(String, bool)>, Problem> {
    let Some(body) = event.value("body").map(words) else {
        return Ok(None);
    };
    let encoded = event.value("isBase64Encoded");
    let encoded = encoded.is_some_and(|encoded| encoded.get() == "true");
    if encoded && STANDARD.decode(body.as_bytes()).is_err() {
        let detail = "the body must be the Base64 that it is said to be";
        return Err(Problem::fault("", detail));
    }
    Ok(Some((body.into_owned(), encoded)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(event: &Value) -> axum::extract::Request {
        let Sent {
            event,
            target,
            identity,
        } = sent(&event.to_string()).unwrap();
        crate::as_sent(event.into(), target.unwrap(), identity)
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
    fn the_stage_is_left_out_where_the_event_has_put_it() {
        let uri = |path, stage| read(&http(path, stage)).uri().to_string();
        assert_eq!(uri("/prod/x", "prod"), "/x?tokens=2");
        assert_eq!(uri("/prod", "prod"), "/?tokens=2");
        assert_eq!(uri("/production/x", "prod"), "/production/x?tokens=2");
        assert_eq!(uri("/prod/x", "$default"), "/prod/x?tokens=2");
        // A REST API never puts it into `path`.
        let uri = |path| read(&rest(path)).uri().to_string();
        assert_eq!(uri("/ratelimit/x"), "/ratelimit/x?resource=GET+%2Fa");
        assert_eq!(uri("/prod/x"), "/prod/x?resource=GET+%2Fa");
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
            let uri = read(&rest(path)).uri().to_string();
            assert_eq!(uri, format!("{sent}?resource=GET+%2Fa"));
        }
    }

    #[test]
    fn a_raw_query_is_escaped_where_it_must_be() {
        let mut event = http("/", "$default");
        event["rawQueryString"] = json!("a=\"<ü>#\u{1}&b=%2F&c=%zz+1");
        let query = read(&event).uri().query().unwrap().to_owned();
        assert_eq!(query, "a=%22%3C%C3%BC%3E%23%01&b=%2F&c=%zz+1");
        event["rawQueryString"] = json!(null);
        event["queryStringParameters"] = json!({ "a": "1 2", "b": 7 });
        assert_eq!(read(&event).uri().query(), Some("a=1+2&b=7"));
    }

    #[test]
    fn every_value_of_a_query_is_kept_and_told_once() {
        let mut event = rest("/");
        event["multiValueQueryStringParameters"] = json!({ "a": ["1", "2"], "b": null });
        event["queryStringParameters"] = json!({ "a": "2", "c": "3" });
        assert_eq!(read(&event).uri().query(), Some("a=1&a=2&c=3"));
    }

    #[test]
    fn what_cannot_be_a_header_is_left_out_and_what_cannot_be_a_value_matches_nothing() {
        let mut event = rest("/");
        event["headers"] = json!({
            "if-match": "\"1\"\n", "x y": "1", "": "1", "a": null, "b": 5, "c": "\u{fc}\t", "X-D": "1",
        });
        event["multiValueHeaders"] = json!({ "x-d": ["1", "2"], "e": "3" });
        let headers = read(&event).headers().clone();
        assert_eq!(headers["if-match"], "\"1\"?");
        assert_eq!(headers["b"], "5");
        assert_eq!(headers["c"].as_bytes(), "\u{fc}\t".as_bytes());
        assert_eq!(headers.get_all("x-d").iter().count(), 2);
        assert_eq!(headers["e"], "3");
        assert_eq!(headers.len(), 6);
    }

    #[test]
    fn an_identity_is_known_through_either_kind_of_api() {
        let arn = "arn:aws:iam::123456789012:user/a";
        let mut url = http("/", "$default");
        url["requestContext"]["authorizer"] = json!({ "iam": { "userArn": arn } });
        let mut api = rest("/");
        api["requestContext"]["identity"]["userArn"] = json!(arn);
        for event in [url, api] {
            let request = read(&event);
            assert_eq!(request.extensions().get(), Some(&Identity(arn.to_owned())));
        }
        for none in [
            json!(null),
            json!({ "iam": null }),
            json!({ "iam": { "userArn": "" } }),
        ] {
            let mut event = http("/", "$default");
            event["requestContext"]["authorizer"] = none;
            assert_eq!(read(&event).extensions().get::<Identity>(), None);
        }
    }

    #[test]
    fn what_tells_of_no_request_is_known_for_it() {
        for event in [
            "{}",
            "null",
            "[]",
            r#"{"Records": []}"#,
            r#"{"httpMethod": 5}"#,
        ] {
            assert!(sent(event).is_none(), "{event}");
        }
    }
}
