//! `GET /ratelimit/rules/{id}` and `GET /ratelimit/rules/{resource}`

use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::Response;
use http_events::openapi::{Answer, Operation, either, reference};
use http_events::{Named, Problem};

use super::{id_of, list};
use crate::answer;
use crate::describe::{operation, page, paged, tagged};
use crate::failure::Failure;
use crate::query::Query;
use crate::state::State;

pub(crate) fn describe() -> Operation {
    let shown = "The rule; or, for a resource, a page of the rules that a call to it could meet: `{\"rules\": […], \"next\": null}`.";
    let either = either([reference("Rule"), page("rules", "Rule").into()]);
    let operation = operation(
        "showRule",
        "Show a rule, or the rules that a call to a resource could meet",
    );
    paged(operation)
        .path("name", super::name())
        .answer(tagged(Answer::json(StatusCode::OK, shown, either)))
        .problem(StatusCode::NOT_FOUND)
}

pub(crate) async fn handle(
    Shared(state): Shared<State>,
    Named(name): Named<String>,
    mut query: Query,
) -> Result<Response, Failure> {
    let Some(id) = id_of(&name) else {
        return list::met(&state, &name, query).await;
    };
    // A rule is a page of one.
    let (_, _) = (query.limit(), query.text("cursor"));
    query.finish()?;
    let rule = state.database.rule(id).await?;
    let rule = rule.ok_or_else(|| Problem::not_found("there is no such rule"))?;
    Ok(answer::shown(&rule, rule.revision))
}
