//! A stand-in for API Gateway: one REST API as the template describes it.

mod api;
mod event;
mod response;
mod route;
mod variables;
mod verdict;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, Method, Request, header};
use serde_json::{Map, Value};
use time::OffsetDateTime;
use tower::ServiceExt;

pub use api::{Api, Guard, Preflight};
pub use event::Event;
pub use response::{GatewayResponse, GatewayResponses, Refusal, Source};
pub use route::{Match, Route, find};
pub use variables::Variables;
pub use verdict::{FunctionError, Verdict};

/// What API Gateway takes and what it waits for.
const MAX_BODY_BYTES: usize = 10 * 1024 * 1024;
const BACKEND_TIMEOUT: Duration = Duration::from_secs(29);

/// A function's answer to come.
pub type Answer = Pin<Box<dyn Future<Output = Result<Value, FunctionError>> + Send>>;

/// Invokes the authorizer, wherever it runs.
pub type Authorize = Arc<dyn Fn(Value) -> Answer + Send + Sync>;

/// What stands in the extensions of a request that reaches its backend.
#[derive(Debug, Clone)]
pub struct Passed {
    /// The event that a Lambda backend would be sent.
    pub event: Event,
    /// `requestContext.authorizer`.
    pub authorizer: Map<String, Value>,
}

/// One API with its authorizer and its backends in place.
#[derive(Clone)]
pub struct Gateway {
    api: Api,
    authorize: Option<Authorize>,
    backends: HashMap<String, Router>,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Gateway")
            .field("api", &self.api)
            .finish_non_exhaustive()
    }
}

impl Gateway {
    /// An API whose functions are `backends`, by logical id. An error names what the API needs and is not there.
    pub fn new(
        api: Api,
        authorize: Option<Authorize>,
        backends: HashMap<String, Router>,
    ) -> Result<Self, String> {
        if let (Guard::Authorizer { function, .. }, None) = (&api.guard, &authorize) {
            return Err(format!("{function} is not here to be asked"));
        }
        match api
            .routes
            .iter()
            .find(|route| !backends.contains_key(&route.function))
        {
            Some(route) => Err(format!(
                "{} has no backend: {} is not here",
                route.resource, route.function
            )),
            None => Ok(Self {
                api,
                authorize,
                backends,
            }),
        }
    }

    /// The API as a service for every method and path; it must be told who calls (`ConnectInfo`).
    pub fn into_router(self) -> Router {
        let gateway = Arc::new(self);
        Router::new().fallback(
            move |ConnectInfo(caller): ConnectInfo<SocketAddr>, request: Request<Body>| {
                let gateway = Arc::clone(&gateway);
                async move { gateway.answer(request, caller).await }
            },
        )
    }

    /// The answer to a call from `caller`.
    pub async fn answer(&self, request: Request<Body>, caller: SocketAddr) -> Response {
        let (parts, body) = request.into_parts();
        let found = find(&self.api.routes, parts.method.as_str(), parts.uri.path());
        let event = Event::of(
            &parts,
            caller,
            &self.api.stage,
            found.as_ref(),
            OffsetDateTime::now_utc(),
        );
        let preflight = self.preflight(&parts, found.as_ref());
        let guarded = preflight.is_none_or(|preflight| preflight.guarded);
        if found.is_none() && preflight.is_none() {
            return self.refuse(Refusal::MissingAuthenticationToken, &event, Map::new());
        }
        let authorizer = match guarded {
            false => Map::new(),
            true => match self.verdict(&event).await {
                Verdict::Allowed(context) => context,
                Verdict::Refused { refusal, context } => {
                    return self.refuse(refusal, &event, context);
                }
            },
        };
        if let Some(preflight) = preflight {
            return allowed(preflight);
        }
        let backend = found.and_then(|found| self.backends.get(&found.route.function));
        let Some(backend) = backend.cloned() else {
            return self.refuse(Refusal::MissingAuthenticationToken, &event, Map::new());
        };
        match tokio::time::timeout(
            BACKEND_TIMEOUT,
            forward(backend, parts, body, &event, authorizer),
        )
        .await
        {
            Ok(Ok(answer)) => answer,
            Ok(Err(refusal)) => self.refuse(refusal, &event, Map::new()),
            Err(_) => self.refuse(Refusal::IntegrationTimeout, &event, Map::new()),
        }
    }

    /// The answer to a browser's `OPTIONS`, unless a route of its own takes it.
    fn preflight(&self, parts: &Parts, found: Option<&Match<'_>>) -> Option<&Preflight> {
        let own = found.is_some_and(|found| found.route.method == "OPTIONS");
        let known = route::resource_at(&self.api.routes, parts.uri.path()).is_some();
        self.api
            .preflight
            .as_ref()
            .filter(|_| parts.method == Method::OPTIONS && known && !own)
    }

    async fn verdict(&self, event: &Event) -> Verdict {
        let (Guard::Authorizer { timeout, .. }, Some(authorize)) =
            (&self.api.guard, &self.authorize)
        else {
            return Verdict::Allowed(Map::new());
        };
        let answer = tokio::time::timeout(*timeout, authorize(event.for_authorizer()))
            .await
            .unwrap_or_else(|_| {
                Err(FunctionError {
                    error_type: "Sandbox.Timedout".to_owned(),
                    message: format!("Task timed out after {} seconds", timeout.as_secs()),
                })
            });
        if let Err(error) = &answer
            && error.message != "Unauthorized"
        {
            tracing::warn!(kind = %error.error_type, message = %error.message, "the authorizer failed");
        }
        Verdict::of(answer.as_ref(), &event.method_arn)
    }

    fn refuse(&self, refusal: Refusal, event: &Event, authorizer: Map<String, Value>) -> Response {
        let mut context = event.context.clone();
        context["authorizer"] = Value::Object(authorizer);
        self.api
            .responses
            .render(refusal, &Variables::new(context))
            .map(Body::from)
    }
}

fn allowed(preflight: &Preflight) -> Response {
    let headers: HeaderMap = preflight.headers.iter().cloned().collect();
    (
        headers,
        [(header::CONTENT_TYPE, "application/json")],
        "{}\n",
    )
        .into_response()
}

async fn forward(
    backend: Router,
    parts: Parts,
    body: Body,
    event: &Event,
    authorizer: Map<String, Value>,
) -> Result<Response, Refusal> {
    let body = to_bytes(body, MAX_BODY_BYTES)
        .await
        .map_err(|_| Refusal::RequestTooLarge)?;
    let mut request = Request::from_parts(parts, Body::from(body));
    request.extensions_mut().insert(Passed {
        event: event.clone(),
        authorizer,
    });
    match backend.oneshot(request).await {
        Ok(answer) => Ok(answer),
        Err(never) => match never {},
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use http::response;
    use serde_json::json;

    use super::*;
    use crate::backend;
    use crate::template::Template;

    const TEMPLATE: &str = include_str!("../../template.yaml");

    /// The protected API of the template, whose authorizer always gives `answer`; and what it was asked.
    fn protected(answer: Result<Value, FunctionError>) -> (Gateway, Arc<Mutex<Vec<Value>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let record = asked.clone();
        let authorize: Authorize = Arc::new(move |event| {
            record.lock().unwrap().push(event);
            let answer = answer.clone();
            Box::pin(async move { answer })
        });
        let api = Api::read(&Template::parse(TEMPLATE).unwrap(), "ProtectedApi").unwrap();
        let backends = HashMap::from([("BackendFunction".to_owned(), backend::echo())]);
        (Gateway::new(api, Some(authorize), backends).unwrap(), asked)
    }

    fn policy(effect: &str) -> Result<Value, FunctionError> {
        Ok(json!({
            "principalId": "demo-free",
            "policyDocument": {"Version": "2012-10-17", "Statement": [
                {"Action": "execute-api:Invoke", "Effect": effect, "Resource": "*"}
            ]},
            "context": {
                "clientId": "demo-free", "reason": "limit", "ruleId": "r", "limit": "10", "remaining": "0", "reset": "60",
                "retryAfter": "6", "rateLimit": "\"r\";r=0;t=60", "rateLimitPolicy": "\"r\";q=10;w=60",
            },
        }))
    }

    fn failure(message: &str) -> Result<Value, FunctionError> {
        Err(FunctionError {
            error_type: message.to_owned(),
            message: message.to_owned(),
        })
    }

    async fn call(gateway: &Gateway, request: http::request::Builder) -> (response::Parts, String) {
        let request = request.body(Body::from("hello")).unwrap();
        let answer = gateway
            .answer(request, "127.0.0.1:5000".parse().unwrap())
            .await;
        let (parts, body) = answer.into_parts();
        let body = to_bytes(body, 1 << 20).await.unwrap();
        (parts, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_denied_call_gets_429_with_every_header_and_a_problem() {
        let (gateway, _) = protected(policy("Deny"));
        let (parts, body) = call(&gateway, Request::get("/orders/1")).await;
        assert_eq!(parts.status, 429);
        for (name, value) in [
            ("content-type", "application/problem+json"),
            ("retry-after", "6"),
            ("ratelimit", "\"r\";r=0;t=60"),
            ("ratelimit-policy", "\"r\";q=10;w=60"),
            ("x-ratelimit-limit", "10"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "60"),
            ("x-ratelimit-retryafter", "6"),
            ("access-control-allow-origin", "*"),
        ] {
            assert_eq!(parts.headers[name], value, "{name}");
        }
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["status"], 429);
        assert_eq!(body["reason"], "limit");
        assert_eq!(body["retry_after"], "6");
    }

    #[tokio::test]
    async fn an_allowed_call_is_echoed_with_what_the_authorizer_told() {
        let (gateway, asked) = protected(policy("Allow"));
        let (parts, body) = call(&gateway, Request::post("/orders?x=1").header("a", "b")).await;
        assert_eq!(parts.status, 200);
        assert_eq!(parts.headers["x-ratelimit-limit"], "10");
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["method"], "POST");
        assert_eq!(body["path"], "/orders");
        assert_eq!(body["query"], json!({"x": "1"}));
        assert_eq!(body["headers"]["a"], "b");
        assert_eq!(body["body"], "hello");
        assert_eq!(body["authorizer"]["clientId"], "demo-free");
        assert_eq!(body["authorizer"]["principalId"], "demo-free");
        assert_eq!(asked.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_failure_is_401_if_it_says_unauthorized_and_503_otherwise() {
        for (answer, status) in [
            (failure("Unauthorized"), 401),
            (failure("StoreUnavailable"), 503),
            (Ok(json!({"isAuthorized": true})), 503),
        ] {
            let (gateway, _) = protected(answer.clone());
            let (parts, body) = call(&gateway, Request::get("/")).await;
            assert_eq!(parts.status, status, "{answer:?}");
            assert_eq!(
                parts.headers.get("retry-after").map(|value| value == "1"),
                (status == 503).then_some(true)
            );
            let body: Value = serde_json::from_str(&body).unwrap();
            assert_eq!(body["status"], status);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_authorizer_that_never_answers_is_503() {
        let api = Api::read(&Template::parse(TEMPLATE).unwrap(), "ProtectedApi").unwrap();
        let backends = HashMap::from([("BackendFunction".to_owned(), backend::echo())]);
        let never: Authorize = Arc::new(|_| Box::pin(std::future::pending()));
        let gateway = Gateway::new(api, Some(never), backends).unwrap();
        let (parts, _) = call(&gateway, Request::get("/")).await;
        assert_eq!(parts.status, 503);
    }

    #[tokio::test]
    async fn a_browsers_options_is_answered_without_asking() {
        let (gateway, asked) = protected(policy("Deny"));
        let (parts, body) = call(&gateway, Request::options("/orders/1")).await;
        assert_eq!(parts.status, 200);
        assert_eq!(parts.headers["access-control-allow-origin"], "*");
        assert_eq!(parts.headers["access-control-max-age"], "600");
        assert_eq!(body, "{}\n");
        assert!(asked.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn what_no_route_covers_is_what_api_gateway_says_of_it() {
        let api = Api::read(&Template::parse(TEMPLATE).unwrap(), "ControlApi").unwrap();
        let names = ["RulesFunction", "ClientsFunction"];
        let backends = names.map(|name| (name.to_owned(), backend::echo()));
        let gateway = Gateway::new(api, None, HashMap::from(backends)).unwrap();
        let (parts, body) = call(&gateway, Request::get("/")).await;
        assert_eq!(parts.status, 403);
        assert!(body.contains("Missing Authentication Token"), "{body}");
        let (parts, _) = call(&gateway, Request::get("/clients")).await;
        assert_eq!(parts.status, 200);
    }

    #[test]
    fn an_api_without_its_functions_is_refused() {
        let api = Api::read(&Template::parse(TEMPLATE).unwrap(), "ControlApi").unwrap();
        let error = Gateway::new(api, None, HashMap::new()).unwrap_err();
        assert!(error.contains("is not here"), "{error}");
    }
}
