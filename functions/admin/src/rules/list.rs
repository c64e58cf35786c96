//! `GET /ratelimit/rules`

use axum::extract::State as Shared;
use axum::response::Response;
use limits::Pattern;
use limits_postgres::find_rules::Filter;

use crate::answer;
use crate::failure::Failure;
use crate::query::Query;
use crate::state::State;

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
