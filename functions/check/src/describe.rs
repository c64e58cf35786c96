//! What the operations say of themselves.

use axum::http::StatusCode;
use http_events::openapi::{Answer, Operation, Shape, client_id, reference};
use limiter::Reason;
use limits::rule::MOST;
use serde_json::json;

use crate::reply::EXCEEDED;
use limits::path::LONGEST as LONGEST_RESOURCE;
use limits::quota::MOST_TOKENS;

/// The shapes that the operations refer to.
pub(crate) fn shapes() -> Vec<(&'static str, Shape)> {
    let question = Shape::object()
        .required("resource", resource())
        .field("tokens", tokens().or_null())
        .field("ip", ip().or_null())
        .field(
            "client_id",
            client_id()
                .or_null()
                .meaning("That of the path, or left out."),
        )
        .closed();
    let call = Shape::object()
        .required("SourceService", client_id().meaning("The one that calls."))
        .field(
            "DestinationService",
            client_id()
                .or_null()
                .meaning("The one that is called; left out, whoever asks."),
        )
        .closed();
    let throttled = Shape::object()
        .required("error", Shape::words(&[EXCEEDED]))
        .and(reply());
    vec![
        ("Question", question),
        ("Reply", reply()),
        ("ServiceCall", call),
        ("Throttled", throttled),
    ]
}

fn resource() -> Shape {
    Shape::text()
        .length(1, LONGEST_RESOURCE)
        .like(r"\S")
        .meaning("What is called: `GET /orders/1`, or the name of a service.")
}

fn tokens() -> Shape {
    Shape::integer(1, MOST_TOKENS)
        .by_default(1)
        .meaning("What the call costs, in requests.")
}

fn ip() -> Shape {
    Shape::text().meaning("Where the client calls from: an IPv4 or IPv6 address.")
}

fn reply() -> Shape {
    let reasons = Reason::ALL.map(Reason::as_str);
    Shape::object()
        .required("status", Shape::words(&["allowed", "blocked"]))
        .required(
            "limit",
            Shape::integer(0, MOST)
                .or_null()
                .meaning("Requests a window."),
        )
        .required(
            "remaining",
            Shape::integer(0, MOST)
                .or_null()
                .meaning("Requests left now."),
        )
        .required(
            "reset",
            Shape::count()
                .or_null()
                .meaning("Seconds until nothing is counted any more."),
        )
        .required(
            "rule_id",
            Shape::uuid()
                .or_null()
                .meaning("The rule that is told; null is the default limit."),
        )
        .required("reason", Shape::words(&reasons))
        .required(
            "retry_at",
            Shape::moment()
                .or_null()
                .meaning("Null when allowed, or never."),
        )
        .required(
            "retry_after",
            Shape::count().or_null().meaning("Seconds to wait."),
        )
}

fn told(status: StatusCode, meaning: &str) -> Answer {
    with_limits(Answer::json(status, meaning, reference("Reply")))
}

fn with_limits(answer: Answer) -> Answer {
    let number = |meaning: &str| Shape::count().meaning(meaning);
    answer
        .header("X-RateLimit-Limit", number("Requests a window."))
        .header("X-RateLimit-Remaining", number("Requests left now."))
        .header(
            "X-RateLimit-Reset",
            number("Seconds until nothing is counted any more."),
        )
        .header("X-RateLimit-RetryAfter", number("Seconds to wait."))
        .header("Retry-After", number("Seconds to wait."))
        .header("RateLimit", Shape::text().meaning("The rule that is told."))
        .header(
            "RateLimit-Policy",
            Shape::text().meaning("Each rule that was counted."),
        )
}

fn asking(id: &str, summary: &str) -> Operation {
    Operation::new(id, summary)
        .path("client_id", client_id().example("alice"))
        .problem(StatusCode::FORBIDDEN)
        .problem(StatusCode::SERVICE_UNAVAILABLE)
}

pub(crate) fn ask() -> Operation {
    asking("ask", "May this client make such a call? Counts it if so")
        .body(
            reference("Question"),
            json!({"resource": "GET /orders/1", "tokens": 1}),
        )
        .answer(told(StatusCode::OK, "It may."))
        .answer(told(StatusCode::TOO_MANY_REQUESTS, "It may not."))
}

pub(crate) fn look() -> Operation {
    asking("look", "The same without counting")
        .required_query("resource", resource().example("GET /orders/1"))
        .query("tokens", tokens())
        .query("ip", ip())
        .answer(told(StatusCode::OK, "Whether it may."))
}

pub(crate) fn throttle() -> Operation {
    let passed = Answer::json(StatusCode::OK, "It may.", Shape::object().closed());
    let stopped = Answer::json(
        StatusCode::TOO_MANY_REQUESTS,
        "It may not.",
        reference("Throttled"),
    );
    Operation::new(
        "throttle",
        "May this service call that one? Counts the call if so",
    )
    .body(
        reference("ServiceCall"),
        json!({"SourceService": "billing", "DestinationService": "orders"}),
    )
    .answer(with_limits(passed))
    .answer(with_limits(stopped))
    .problem(StatusCode::FORBIDDEN)
    .problem(StatusCode::SERVICE_UNAVAILABLE)
}

pub(crate) fn health() -> Operation {
    http_events::health::describe(&["redis"], [])
}
