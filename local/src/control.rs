//! The control and check APIs on one port, without IAM: whoever reaches a port of 127.0.0.1 is the operator.

use std::collections::HashMap;
use std::net::SocketAddr;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ConnectInfo;
use axum::response::IntoResponse;
use http::header::CONTENT_TYPE;
use http::{Method, Request};
use tower::ServiceExt;

use crate::gateway::{Api, Gateway};
use crate::template::Template;

/// The functions of the control API, and the one behind a URL of its own.
#[derive(Debug, Clone)]
pub struct Functions {
    /// The rules.
    pub rules: Router,
    /// The registry.
    pub clients: Router,
    /// The check API.
    pub check: Router,
}

/// Both APIs; the routes of the control API are the template's.
pub fn app(template: &Template, functions: Functions) -> Result<Router, String> {
    let api = Api::read(template, "ControlApi").map_err(|error| error.to_string())?;
    let backends = HashMap::from([
        ("RulesFunction".to_owned(), functions.rules),
        ("ClientsFunction".to_owned(), functions.clients),
    ]);
    let gateway = Gateway::new(api, None, backends)?;
    let check = functions.check;
    let document = document();
    // By hand rather than by routes: a route would leave its parameters in the request, where those of `check` belong.
    Ok(Router::new().fallback(
        move |ConnectInfo(caller): ConnectInfo<SocketAddr>, request: Request<Body>| {
            let (gateway, check) = (gateway.clone(), check.clone());
            let document = document.clone();
            async move {
                if request.method() == Method::GET && request.uri().path() == "/openapi.json" {
                    return ([(CONTENT_TYPE, "application/json")], document).into_response();
                }
                if !is_checks(request.uri().path()) {
                    return gateway.answer(request, caller).await;
                }
                match check.oneshot(request).await {
                    Ok(answer) => answer,
                    Err(never) => match never {},
                }
            }
        },
    ))
}

/// What both APIs say of themselves, in one.
fn document() -> Bytes {
    let mut document = admin::openapi::control_api().merge_from(check::check_api());
    document.info.title = "Weir: the control and check APIs".to_owned();
    document.to_json().unwrap_or_default().into()
}

/// Whether a path is the check API's, which in a deployment has a URL of its own.
fn is_checks(path: &str) -> bool {
    path == "/throttleRequest"
        || path
            .strip_prefix("/ratelimit/status")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use axum::extract::Path;
    use axum::routing::post;

    use super::*;

    const TEMPLATE: &str = include_str!("../../template.yaml");

    fn named(name: &'static str) -> Router {
        Router::new().fallback(move || async move { name })
    }

    #[test]
    fn one_document_tells_of_both_apis() {
        let document: serde_json::Value = serde_json::from_slice(&document()).unwrap();
        for path in ["/rule", "/clients", "/ratelimit/status/{client_id}"] {
            assert!(document["paths"][path].is_object(), "{path}");
        }
    }

    #[tokio::test]
    async fn each_path_reaches_its_function() {
        let status = |Path(client): Path<String>| async move { format!("check {client}") };
        let functions = Functions {
            rules: named("rules"),
            clients: named("clients"),
            check: named("check").route("/ratelimit/status/{client}", post(status)),
        };
        let app = app(&Template::parse(TEMPLATE).unwrap(), functions).unwrap();
        for (path, wanted) in [
            ("/ratelimit/rules", "rules"),
            ("/ratelimit/rules:batch", "rules"),
            ("/ratelimit/statuses", "rules"),
            ("/rule", "rules"),
            ("/clients", "clients"),
            ("/clients/a%2Fb/keys", "clients"),
            ("/clients2", "rules"),
            ("/ratelimit/status/a%2Fb", "check a/b"),
            ("/ratelimit/status", "check"),
            ("/throttleRequest", "check"),
            ("/setThrottleRule", "rules"),
            ("/getThrottleRule", "rules"),
        ] {
            let mut request = Request::post(path).body(Body::empty()).unwrap();
            let caller: SocketAddr = "127.0.0.1:5000".parse().unwrap();
            request.extensions_mut().insert(ConnectInfo(caller));
            let answer = app.clone().oneshot(request).await.unwrap();
            let body = to_bytes(answer.into_body(), 1000).await.unwrap();
            assert_eq!(body, wanted, "{path}");
        }
    }
}
