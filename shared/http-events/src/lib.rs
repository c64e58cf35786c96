//! What Lambda is sent over HTTP, as axum's routers take it: REST API (v1), HTTP API (v2), function URL and `cargo lambda watch`.
//!
//! [`serve`] is the way from an event to a router and back; [`Routes`] is where each handler and its description stand together,
//! [`Body`], [`Named`] and [`NoQuery`] are how all of them read, [`Problem`] is how they say no. Apart from the functions, so that the authorizer takes no HTTP server along.

mod body;
mod event;
pub mod health;
mod json;
pub mod openapi;
mod path;
mod problem;
mod query;
mod routes;

pub use body::{Body, both};
pub use event::Identity;
pub use path::Named;
pub use problem::Problem;
pub use query::NoQuery;
pub use routes::Routes;

use axum::Router;
use axum::body::to_bytes;
use axum::http::uri::PathAndQuery;
use axum::http::{Response, Uri};
use axum::response::IntoResponse;
use lambda_http::{Adapter, Context};
use lambda_runtime::{Diagnostic, LambdaEvent, Service, service_fn};
use serde::Serialize;
use serde_json::value::RawValue;
use tower::ServiceExt;

use event::Sent;

/// Answers the events of this container by a router, until Lambda ends it.
///
/// # Errors
/// Where the runtime cannot go on.
pub async fn serve(router: Router) -> Result<(), lambda_runtime::Error> {
    aws::container::run(move |event: LambdaEvent<Box<RawValue>>| {
        let router = router.clone();
        async move { handle(router, event.payload.get(), event.context).await }
    })
    .await
}

fn failure(error_type: &str, error_message: String) -> Diagnostic {
    Diagnostic {
        error_type: error_type.to_owned(),
        error_message,
    }
}

/// Answers one event, in the form that it asks for.
///
/// # Errors
/// None that a caller can cause: every request has an answer. Only an event that tells of no request has none.
async fn handle(
    router: Router,
    event: &str,
    context: Context,
) -> Result<impl Serialize + use<>, Diagnostic> {
    let Some(Sent {
        event,
        target,
        identity,
    }) = event::sent(event)
    else {
        let wanted = "must be the event of a REST API, an HTTP API or a function URL";
        return Err(failure("NoRequest", wanted.to_owned()));
    };
    let mut answering = Adapter::from(service_fn(|request: lambda_http::Request| {
        let (router, target, identity) = (router.clone(), target.clone(), identity.clone());
        async move {
            let response = match target {
                Ok(target) => {
                    let Ok(response) = router.oneshot(as_sent(request, target, identity)).await;
                    response
                }
                Err(problem) => problem.into_response(),
            };
            let (parts, body) = response.into_parts();
            let bytes = to_bytes(body, usize::MAX).await;
            let bytes = bytes.map_err(|error| failure("NoAnswer", error.to_string()))?;
            // All answers are JSON. As text they travel as they are, whatever the event's kind makes of their content type.
            let text = String::from_utf8_lossy(&bytes).into_owned();
            Ok::<_, Diagnostic>(Response::from_parts(parts, lambda_http::Body::Text(text)))
        }
    }));
    answering.call(LambdaEvent::new(event, context)).await
}

/// The request with the path and the query that the caller sent: not resolved, and with no host in front.
fn as_sent(
    request: lambda_http::Request,
    target: PathAndQuery,
    identity: Option<Identity>,
) -> axum::extract::Request {
    let (mut parts, body) = request.into_parts();
    parts.uri = Uri::from(target);
    if let Some(identity) = identity {
        parts.extensions.insert(identity);
    }
    axum::extract::Request::from_parts(parts, axum::body::Body::new(body))
}
