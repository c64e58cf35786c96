//! HTTP on the loopback in front of containers: what API Gateway and a function URL make of a call.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Response, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use local::gateway::Event;
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::{Container, answer};

/// More than any answer has.
const LONGEST: usize = 16 << 20;

/// A port behind which functions are. Dropping it closes the port and ends them.
pub struct Bridge {
    url: String,
    server: JoinHandle<()>,
}

impl Bridge {
    /// A REST API: a path goes to the container of the first prefix that it has.
    pub async fn rest(functions: Vec<(&'static str, Container)>) -> Self {
        Self::start(functions, rest_event).await
    }

    /// A function URL that asks nobody who he is.
    pub async fn function_url(function: Container) -> Self {
        Self::start(vec![("", function)], url_event).await
    }

    /// A function URL with IAM, which knows one principal by its access key: whatever is signed with that for the service
    /// `lambda` comes from it, and nothing else does. The signature itself is believed.
    pub async fn function_url_of(function: Container, access_key: &str, principal: &str) -> Self {
        let credential = format!("AWS4-HMAC-SHA256 Credential={access_key}/");
        let principal = principal.to_owned();
        Self::start(vec![("", function)], move |parts, caller| {
            let mut event = url_event(parts, caller);
            let signed = event["headers"]["authorization"]
                .as_str()
                .unwrap_or_default();
            if signed.starts_with(&credential) && signed.contains("/lambda/aws4_request,") {
                event["requestContext"]["authorizer"] = json!({"iam": {"userArn": principal}});
            }
            event
        })
        .await
    }

    async fn start(
        functions: Vec<(&'static str, Container)>,
        event: impl Fn(&Parts, SocketAddr) -> Value + Clone + Send + Sync + 'static,
    ) -> Self {
        let functions = Arc::new(functions);
        let app = Router::new().fallback(
            move |ConnectInfo(caller): ConnectInfo<SocketAddr>, request: Request| {
                let functions = Arc::clone(&functions);
                let event = event.clone();
                async move {
                    let (parts, body) = request.into_parts();
                    let path = parts.uri.path();
                    let found = functions
                        .iter()
                        .find(|(prefix, _)| path.starts_with(prefix));
                    let container = &found.expect("a function for every path").1;
                    let mut event = event(&parts, caller);
                    let body = to_bytes(body, LONGEST).await.unwrap();
                    match std::str::from_utf8(&body) {
                        Ok("") => event["body"] = Value::Null,
                        Ok(text) => event["body"] = text.into(),
                        Err(_) => {
                            event["body"] = STANDARD.encode(&body).into();
                            event["isBase64Encoded"] = true.into();
                        }
                    }
                    match container.invoke(&event).await {
                        Ok(answer) => response(&answer),
                        Err(error) => {
                            let mut failed = Response::new(Body::from(error.to_string()));
                            *failed.status_mut() = StatusCode::BAD_GATEWAY;
                            failed
                        }
                    }
                }
            },
        );
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, server }
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn rest_event(parts: &Parts, caller: SocketAddr) -> Value {
    let event = Event::of(parts, caller, "prod", None, OffsetDateTime::now_utc());
    let mut event = event.for_authorizer();
    event["isBase64Encoded"] = false.into();
    event
}

fn url_event(parts: &Parts, caller: SocketAddr) -> Value {
    let mut headers = Map::new();
    for name in parts.headers.keys() {
        let values = parts.headers.get_all(name).iter();
        let values: Vec<_> = values
            .map(|value| String::from_utf8_lossy(value.as_bytes()))
            .collect();
        headers.insert(name.to_string(), values.join(",").into());
    }
    let path = parts.uri.path();
    json!({
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": parts.uri.query().unwrap_or_default(),
        "headers": headers,
        "requestContext": {
            "stage": "$default",
            "http": {
                "method": parts.method.as_str(),
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": caller.ip().to_string(),
            },
        },
        "isBase64Encoded": false,
    })
}

fn response(answer: &Value) -> Response<Body> {
    let mut headers = HeaderMap::new();
    for (name, value) in answer::headers(answer).as_object().unwrap() {
        let name: axum::http::HeaderName = name.parse().unwrap();
        // What is sent is measured here.
        if name != "content-length" {
            headers.insert(name, value.as_str().unwrap().parse().unwrap());
        }
    }
    let text = answer["body"].as_str().unwrap_or_default().to_owned();
    let mut response = Response::new(Body::from(text));
    let status = answer["statusCode"].as_u64().unwrap();
    *response.status_mut() = StatusCode::from_u16(status.try_into().unwrap()).unwrap();
    *response.headers_mut() = headers;
    response
}
