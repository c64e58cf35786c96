//! `GET /ratelimit/rules`

use axum::extract::State as Shared;
use axum::response::Response;
use http_events::openapi::{Operation, Shape};
use limits::Pattern;
use limits::rule::{Status, Tier};
use limits_postgres::find_rules::Filter;

use crate::answer;
use crate::describe::{client_id, listing, operation, resource};
use crate::failure::Failure;
use crate::query::Query;
use crate::state::State;

pub(crate) fn describe() -> Operation {
    let operation = operation("listRules", "List rules")
        .description("With `applies_to`: every rule that such a call could meet, most specific first; not beside the filters.")
        .query("applies_to", Shape::text().meaning("A call like `GET /orders/1`, or the name of a service."))
        .query("client", client_id().meaning("Rules for this client."))
        .query("tier", Shape::words(Tier::ALL).meaning("Rules for this tier."))
        .query("status", Shape::words(Status::ALL).meaning("Rules in this state."))
        .query("resource", resource().meaning("Rules for this very resource."));
    listing(operation, "rules", "Rule")
}

pub(crate) async fn handle(
    Shared(state): Shared<State>,
    mut query: Query,
) -> Result<Response, Failure> {
    if let Some(resource) = query.text("applies_to") {
        return met(&state, &resource, query).await;
    }
    let filter = Filter {
        client: query.client("client"),
        tier: query.choice("tier"),
        status: query.choice("status"),
        resource: query.read("resource", Pattern::parse),
    };
    let (limit, cursor) = (query.limit(), query.cursor());
    query.finish()?;
    let page = state.database.list_rules(&filter, cursor, limit).await?;
    Ok(answer::page("rules", &page))
}

/// Every rule that a call to `resource` could meet, most specific first.
pub(super) async fn met(
    state: &State,
    resource: &str,
    mut query: Query,
) -> Result<Response, Failure> {
    let (limit, cursor) = (query.limit(), query.cursor());
    if resource.is_empty() {
        query.fault(
            "applies_to",
            "must be a call like `GET /orders/1`, or the name of a service",
        );
    }
    query.finish()?;
    let page = state.database.rules_met(resource, cursor, limit).await?;
    Ok(answer::page("rules", &page))
}
