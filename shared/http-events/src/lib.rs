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

use aws_lambda_events::apigw::ApiGatewayProxyResponse;
use axum::Router;
use axum::response::IntoResponse;
use lambda_runtime::{Diagnostic, LambdaEvent, run_concurrent, service_fn};
use serde_json::value::RawValue;
use tower::ServiceExt;

/// Answers the events of this container by a router, until Lambda ends it.
///
/// # Errors
/// Where the runtime cannot go on.
pub async fn serve(router: Router) -> Result<(), lambda_runtime::Error> {
    run_concurrent(service_fn(move |event: LambdaEvent<Box<RawValue>>| {
        let router = router.clone();
        async move { handle(router, event.payload.get()).await }
    }))
    .await
}

/// Answers one event.
///
/// # Errors
/// None that a caller can cause: every request has an answer. Only an event that tells of no request has none.
async fn handle(router: Router, event: &str) -> Result<ApiGatewayProxyResponse, Diagnostic> {
    let failure = |error_type: &str, error_message: String| Diagnostic {
        error_type: error_type.to_owned(),
        error_message,
    };
    let response = match event::request(event) {
        Some(Ok(request)) => {
            let Ok(response) = router.oneshot(request).await;
            response
        }
        Some(Err(problem)) => problem.into_response(),
        None => {
            let wanted = "must be the event of a REST API, an HTTP API or a function URL";
            return Err(failure("NoRequest", wanted.to_owned()));
        }
    };
    let answer = event::answer(response).await;
    answer.map_err(|error| failure("NoAnswer", error.to_string()))
}
