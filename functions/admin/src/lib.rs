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
mod describe;
mod failure;
mod health;
pub mod migrate;
pub mod openapi;
mod query;
mod rules;
mod state;

use axum::Router;
use http_events::Routes;

pub use announcement::{Announcer, Listener};
pub use state::State;

/// Everything about rules, and what runs the system. At `/openapi.json` it tells of the whole control API.
pub fn rules(state: State) -> Router {
    rule_routes().into_router().with_state(state)
}

/// Everything about clients and their keys.
pub fn clients(state: State) -> Router {
    client_routes().into_router().with_state(state)
}

fn rule_routes() -> Routes<State> {
    use rules::{
        audit, batch, create, delete, explain, list, pair, refresh, replace, reset, revision, show,
        throttle,
    };
    // The rest of the path, slashes and all: a resource that was decoded on the way has its own.
    const NAMED: &str = "/ratelimit/rules/{*name}";
    Routes::new()
        .get("/ratelimit/rules", list::handle, list::describe)
        .post("/ratelimit/rules", create::handle, create::describe)
        .post("/ratelimit/rules:batch", batch::handle, batch::describe)
        .get(NAMED, show::handle, show::describe)
        .put(NAMED, replace::handle, replace::describe)
        .delete(NAMED, delete::handle, delete::describe)
        .get("/rule", pair::show, pair::describe_show)
        .post("/rule", pair::create, pair::describe_create)
        .put("/rule", pair::replace, pair::describe_replace)
        .delete("/rule", pair::delete, pair::describe_delete)
        .put("/setThrottleRule", throttle::set, throttle::describe_set)
        .get("/getThrottleRule", throttle::show, throttle::describe_show)
        .get("/ratelimit/explain", explain::handle, explain::describe)
        .post("/ratelimit/reset", reset::handle, reset::describe)
        .post("/ratelimit/refresh", refresh::handle, refresh::describe)
        .get("/ratelimit/revision", revision::handle, revision::describe)
        .get("/ratelimit/audit", audit::handle, audit::describe)
        .get("/health", health::handle, health::describe)
        .get(
            "/openapi.json",
            openapi::handle,
            http_events::openapi::describe,
        )
}

fn client_routes() -> Routes<State> {
    use clients::{create, create_key, delete, delete_key, list, list_keys, replace, show};
    const ONE: &str = "/clients/{id}";
    const KEYS: &str = "/clients/{id}/keys";
    Routes::new()
        .get("/clients", list::handle, list::describe)
        .post("/clients", create::handle, create::describe)
        .get(ONE, show::handle, show::describe)
        .put(ONE, replace::handle, replace::describe)
        .delete(ONE, delete::handle, delete::describe)
        .get(KEYS, list_keys::handle, list_keys::describe)
        .post(KEYS, create_key::handle, create_key::describe)
        .delete(
            "/clients/{id}/keys/{key_id}",
            delete_key::handle,
            delete_key::describe,
        )
        .get("/health", health::handle, health::describe)
}
