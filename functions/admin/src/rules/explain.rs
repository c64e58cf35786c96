//! `GET /ratelimit/explain`

mod told;

use std::net::IpAddr;

use axum::Json;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use http_events::Problem;
use http_events::openapi::{Answer, Operation, Shape};
use limiter::Supposition;
use limits::Resource;
use limits::path::LONGEST as LONGEST_RESOURCE;
use limits::quota::MOST_TOKENS;
use limits::rule::Tier;

use crate::describe::{client_id, operation};
use crate::failure::Failure;
use crate::query::Query;
use crate::state::State;

pub(crate) fn describe() -> Operation {
    let tiers: Vec<&str> = Tier::ALL.iter().map(|tier| tier.as_str()).collect();
    operation(
        "explain",
        "Which rules a call meets, what becomes of each and why, each bucket now, and what would be decided; spends nothing",
    )
    .description(
        "A client alone has its registered tier; a tier beside it stands in for that one. A tier alone, or neither, is a client \
         that never called; an address alone is a caller known by that alone.",
    )
    .query("client", client_id().meaning("Who calls, registered or not."))
    .query("tier", Shape::words(&tiers).meaning("In place of the registered one."))
    .query("ip", Shape::text().meaning("Where the call comes from: an IPv4 or IPv6 address."))
    .required_query(
        "resource",
        Shape::text()
            .length(1, LONGEST_RESOURCE)
            .meaning("What is called: `GET /orders/1`, or the name of a service."),
    )
    .query(
        "tokens",
        Shape::integer(1, MOST_TOKENS)
            .by_default(1)
            .meaning("What the call costs, in requests."),
    )
    .answer(Answer::json(StatusCode::OK, "Why.", told::shape()))
    .problem(StatusCode::NOT_IMPLEMENTED)
}

/// What is supposed.
struct Question {
    client: Option<String>,
    tier: Option<Tier>,
    ip: Option<IpAddr>,
    resource: String,
    tokens: u64,
}

pub(crate) async fn handle(
    Shared(state): Shared<State>,
    query: Query,
) -> Result<Json<told::Told>, Failure> {
    let question = read(query)?;
    let region = state.region.as_deref().ok_or_else(|| {
        Problem::new(
            StatusCode::NOT_IMPLEMENTED,
            "this function is told of no region: REDIS_URL is not set",
        )
    })?;
    let supposed = Supposition {
        client: question.client.as_deref(),
        tier: question.tier,
        address: question.ip,
        resource: Resource::parse(&question.resource),
        tokens: question.tokens,
    };
    let (verdict, explanation) = region.explain(&supposed).await;
    let explanation = explanation.ok_or_else(|| {
        Problem::store_out("Redis is out, so what would be decided is not known: try again")
    })?;
    Ok(Json(told::Told::new(&question, &verdict, explanation)))
}

fn read(mut query: Query) -> Result<Question, Problem> {
    let client = query.client("client");
    let tier = query.choice("tier");
    let ip = query.read("ip", |text| {
        text.parse()
            .map_err(|_| "must be an IPv4 or IPv6 address".to_owned())
    });
    let tokens = query.read("tokens", |text| {
        text.parse()
            .ok()
            .filter(|tokens| (1..=MOST_TOKENS).contains(tokens))
            .ok_or_else(|| format!("must be an integer from 1 to {MOST_TOKENS}"))
    });
    let resource = query.text("resource").unwrap_or_default();
    if resource.trim().is_empty() || resource.len() > LONGEST_RESOURCE {
        let wanted = format!(
            "must be what is called, in at most {LONGEST_RESOURCE} bytes: `GET /orders/1`, or the name of a service"
        );
        query.fault("resource", wanted);
    }
    query.finish()?;
    Ok(Question {
        client,
        tier,
        ip,
        resource,
        tokens: tokens.unwrap_or(1),
    })
}
