//! `GET /ratelimit/revision`

use axum::Json;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use http_events::Problem;
use http_events::openapi::{Answer, Operation, Shape};
use limits_postgres::record::moment;
use serde::Serialize;
use time::OffsetDateTime;
use tracing::error;

use crate::describe::{self, operation};
use crate::failure::Failure;
use crate::query::Query;
use crate::state::State;

/// The database's revision, and this region's.
#[derive(Serialize)]
pub(crate) struct Revision {
    revision: u64,
    /// Null where this function knows no region (`REDIS_URL` is not set) or nothing was published yet.
    published: Option<Published>,
}

#[derive(Serialize)]
struct Published {
    revision: u64,
    at: String,
}

pub(crate) fn describe() -> Operation {
    let published = Shape::object()
        .required("revision", describe::revision())
        .required("at", Shape::moment())
        .or_null()
        .meaning("What this region has published, and when; null where that is not known or nothing was.");
    let told = Shape::object()
        .required("revision", describe::revision())
        .required("published", published);
    operation(
        "showRevision",
        "What the database holds, and what this region has published",
    )
    .answer(Answer::json(StatusCode::OK, "Both.", told))
}

pub(crate) async fn handle(
    Shared(state): Shared<State>,
    query: Query,
) -> Result<Json<Revision>, Failure> {
    query.finish()?;
    let head = state.database.head().await?;
    let published = match state.published() {
        None => None,
        Some(store) => store.head().await.map_err(|reason| {
            error!(%reason, "Redis is out");
            Problem::store_out("Redis is out, so what this region has published is not known")
        })?,
    };
    let published = published.map(|published| Published {
        revision: published.version.revision,
        at: at(published.stamp),
    });
    Ok(Json(Revision {
        revision: head.revision,
        published,
    }))
}

/// A stamp, in ms since 1970, as a moment.
pub(crate) fn at(stamp_ms: u64) -> String {
    let seconds = i64::try_from(stamp_ms / 1_000).unwrap_or(i64::MAX);
    OffsetDateTime::from_unix_timestamp(seconds)
        .map(moment::text)
        .unwrap_or_default()
}
