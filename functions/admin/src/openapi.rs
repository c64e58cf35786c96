//! `GET /openapi.json`: the control API in its own words.

use std::sync::LazyLock;

use axum::response::Response;
use http_events::openapi::{OpenApi, document, respond};

use crate::failure::Failure;
use crate::query::Query;
use crate::{client_routes, describe, rule_routes};

/// The document of the control API: what the function of the rules answers, and that of the clients.
pub fn control_api() -> OpenApi {
    let routes = rule_routes().described().into_iter();
    let shapes = describe::rules::shapes().into_iter();
    document(
        "Weir: the control API",
        "Who may call what how often: rules, clients, keys. Every error is a problem that names every field at fault.",
        routes.chain(client_routes().described()),
        shapes.chain(describe::clients::shapes()),
    )
}

pub(crate) async fn handle(query: Query) -> Result<Response, Failure> {
    // Made when it is first asked for: a cold start has better things to do.
    static DOCUMENT: LazyLock<String> =
        LazyLock::new(|| control_api().to_json().unwrap_or_default());
    query.finish()?;
    Ok(respond(&DOCUMENT))
}
