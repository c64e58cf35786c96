//! `GET /health`: whether the database answers, and Redis where this function is told of one.

use axum::extract::State as Shared;
use axum::response::Response;
use http_events::health::{self, answer, asked};
use http_events::openapi::Operation;

use crate::failure::Failure;
use crate::query::Query;
use crate::state::State;

pub(crate) fn describe() -> Operation {
    health::describe(&["database", "redis"])
}

pub(crate) async fn handle(
    Shared(state): Shared<State>,
    query: Query,
) -> Result<Response, Failure> {
    query.finish()?;
    let redis = async {
        match state.published() {
            Some(store) => Some(asked(store.head()).await),
            None => None,
        }
    };
    let (database, redis) = tokio::join!(asked(state.database.head()), redis);
    let stores = [
        Some(("database", database.map(drop))),
        redis.map(|redis| ("redis", redis.map(drop))),
    ];
    Ok(answer(stores.into_iter().flatten())?)
}
