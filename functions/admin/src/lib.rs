//! The control API: rules, clients, migrations.
//!
//! Two routers, one for each function: [`rules()`] and [`clients()`], and [`migrate`], which speaks no HTTP. Each operation has a
//! file: it parses, applies, answers. `http_events` hands a router what API Gateway sends.

pub mod actor;
mod announcement;
mod answer;
mod body;
mod clients;
mod cursor;
mod failure;
pub mod migrate;
mod query;
mod rules;
mod state;

use axum::Router;
use axum::routing::{get, post};
use http_events::with_fallbacks;

pub use announcement::{Announcer, Listener};
pub use state::State;

/// Everything about rules, and what runs the system.
pub fn rules(state: State) -> Router {
    let router = Router::new()
        .route(
            "/ratelimit/rules",
            get(rules::list::handle).post(rules::create::handle),
        )
        .route("/ratelimit/rules:batch", post(rules::batch::handle))
        .route(
            // The rest of the path, slashes and all: a resource that was decoded on the way has its own.
            "/ratelimit/rules/{*name}",
            get(rules::show::handle)
                .put(rules::replace::handle)
                .delete(rules::delete::handle),
        )
        .route(
            "/rule",
            get(rules::pair::show)
                .post(rules::pair::create)
                .put(rules::pair::replace)
                .delete(rules::pair::delete),
        )
        .route("/ratelimit/refresh", post(rules::refresh::handle))
        .route("/ratelimit/revision", get(rules::revision::handle))
        .route("/ratelimit/audit", get(rules::audit::handle));
    with_fallbacks(router).with_state(state)
}

/// Everything about clients and their keys.
pub fn clients(state: State) -> Router {
    let router = Router::new()
        .route(
            "/clients",
            get(clients::list::handle).post(clients::create::handle),
        )
        .route(
            "/clients/{id}",
            get(clients::show::handle)
                .put(clients::replace::handle)
                .delete(clients::delete::handle),
        )
        .route(
            "/clients/{id}/keys",
            get(clients::list_keys::handle).post(clients::create_key::handle),
        )
        .route(
            "/clients/{id}/keys/{key_id}",
            axum::routing::delete(clients::delete_key::handle),
        );
    with_fallbacks(router).with_state(state)
}
