//! `GET /ratelimit/rules/{id}` and `GET /ratelimit/rules/{resource}`

use axum::extract::State as Shared;
use axum::response::Response;
use http_events::{Named, Problem};

use super::{id_of, list};
use crate::answer;
use crate::failure::Failure;
use crate::query::Query;
use crate::state::State;

pub(crate) async fn handle(
    Shared(state): Shared<State>,
    Named(name): Named<String>,
    query: Query,
) -> Result<Response, Failure> {
    let Some(id) = id_of(&name) else {
        return list::met(&state, &name, query).await;
    };
    query.finish()?;
    let rule = state.database.rule(id).await?;
    let rule = rule.ok_or_else(|| Problem::not_found("there is no such rule"))?;
    Ok(answer::shown(&rule, rule.revision))
}
