//! `GET /health`: whether the database answers, and Redis where this function is told of one; and what the region last saw of both.

use axum::extract::State as Shared;
use axum::response::Response;
use http_events::health::{self, answer, asked};
use http_events::openapi::{Operation, Shape};
use limits::moment::unix_us;
use limits_redis::Look;
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::query::Query;
use crate::rules::revision::at;
use crate::state::State;

pub(crate) fn describe() -> Operation {
    health::describe(&["database", "redis"], [("seen", shape())])
}

/// How old a look may be, in seconds, until nobody seems to look any more: there is one each minute.
const OLD_SECONDS: u64 = 180;

/// What the region's last look saw, as it is described.
fn shape() -> Shape {
    let status = || Shape::text().meaning("In AWS's word.");
    let healthy = || Shape::boolean().meaning("Whether it serves.");
    let failover = || {
        Shape::moment()
            .or_null()
            .meaning("When the last failover that was seen was over.")
    };
    let cache = Shape::object()
        .required("status", status())
        .required("healthy", healthy())
        .required("nodes_unavailable", Shape::count())
        .required("last_failover", failover());
    let database = Shape::object()
        .required("status", status())
        .required("healthy", healthy())
        .required("last_failover", failover());
    let server = Shape::object()
        .required("primary", Shape::boolean())
        .required("replicas", Shape::count())
        .required("evicted_keys", Shape::count())
        .required("used_memory", Shape::count());
    let unasked = "Null where AWS was not asked, or did not say.";
    let servers = Shape::list(server).meaning("What each Redis server said of itself.");
    let lag = Shape::count()
        .or_null()
        .meaning("How far the replica that is read is behind; null of a primary.");
    Shape::object()
        .required("at", Shape::moment())
        .required("old", Shape::boolean().meaning("Whether nobody has looked since."))
        .required("cache", cache.or_null().meaning(unasked))
        .required("database_instance", database.or_null().meaning(unasked))
        .required("replica_lag_ms", lag)
        .required("servers", servers)
        .or_null()
        .meaning("How the stores of this region were when `refresh` last looked, which makes nothing 503; null where nobody did.")
}

/// The same as it is told.
fn told(look: &Look) -> Value {
    let moment = |seconds: Option<i64>| {
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        seconds.map(|seconds| at(seconds.saturating_mul(1_000)))
    };
    let cache = look.cache.as_ref().map(|seen| {
        json!({
            "status": seen.status,
            "healthy": seen.healthy,
            "nodes_unavailable": seen.unavailable,
            "last_failover": moment(look.cache_failover),
        })
    });
    let database = look.database.as_ref().map(|seen| {
        json!({
            "status": seen.status,
            "healthy": seen.healthy,
            "last_failover": moment(look.database_failover),
        })
    });
    let servers = look.servers.iter().map(|server| {
        json!({
            "primary": server.primary,
            "replicas": server.replicas,
            "evicted_keys": server.evicted,
            "used_memory": server.used_memory,
        })
    });
    json!({
        "at": at(look.at * 1_000),
        "old": unix_us() / 1_000_000 > look.at + OLD_SECONDS,
        "cache": cache,
        "database_instance": database,
        "replica_lag_ms": look.replica_lag_ms,
        "servers": servers.collect::<Vec<_>>(),
    })
}

pub(crate) async fn handle(
    Shared(state): Shared<State>,
    query: Query,
) -> Result<Response, Failure> {
    query.finish()?;
    let redis = async {
        match state.published() {
            Some(store) => Some(tokio::join!(asked(store.head()), asked(store.last_look()))),
            None => None,
        }
    };
    let (database, redis) = tokio::join!(asked(state.database.head()), redis);
    let (redis, look) = redis.unzip();
    let stores = [
        Some(("database", database.map(drop))),
        redis.map(|redis| ("redis", redis.map(drop))),
    ];
    let seen = look.map(|look| look.ok().flatten().as_ref().map_or(Value::Null, told));
    let seen = seen.map(|seen| ("seen".to_owned(), seen));
    Ok(answer(stores.into_iter().flatten(), Map::from_iter(seen))?)
}
