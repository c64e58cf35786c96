//! `GET /ratelimit/audit`

use axum::extract::State as Shared;
use axum::response::Response;
use http_events::openapi::{Operation, Shape};
use limits_postgres::Page;
use limits_postgres::record::{Action, AuditRecord, moment};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::answer;
use crate::describe::{client_id, listing, operation};
use crate::failure::Failure;
use crate::query::Query;
use crate::state::State;

/// One thing that was done, as the API shows it.
#[derive(Serialize)]
struct Shown {
    id: String,
    revision: u64,
    at: String,
    actor: String,
    action: Action,
    rule_id: Option<Uuid>,
    client_id: Option<String>,
    key_id: Option<Uuid>,
    before: Option<Value>,
    after: Option<Value>,
}

impl From<AuditRecord> for Shown {
    fn from(record: AuditRecord) -> Self {
        Self {
            id: format!("{}-{}", record.revision, record.position),
            revision: record.revision,
            at: moment::text(record.at),
            actor: record.actor,
            action: record.action,
            // A rule's clients stand in its `before` and `after`.
            client_id: record
                .clients
                .into_iter()
                .next()
                .filter(|_| record.rule.is_none()),
            rule_id: record.rule,
            key_id: record.key_id,
            before: record.before,
            after: record.after,
        }
    }
}

pub(crate) fn describe() -> Operation {
    let operation = operation(
        "listAudit",
        "Who changed what, before and after; the newest last",
    )
    .query("rule", Shape::uuid().meaning("What was done to this rule."))
    .query("client", client_id().meaning("What concerns this client."));
    listing(operation, "audit", "AuditRecord")
}

pub(crate) async fn handle(
    Shared(state): Shared<State>,
    mut query: Query,
) -> Result<Response, Failure> {
    let rule = query.read("rule", |id| {
        Uuid::try_parse(id).map_err(|_| "must be the id of a rule".to_owned())
    });
    let client = query.client("client");
    let (limit, cursor) = (query.limit(), query.cursor());
    query.finish()?;
    let page = state
        .database
        .audit(rule, client.as_deref(), cursor, limit)
        .await?;
    let page = Page {
        items: page.items.into_iter().map(Shown::from).collect(),
        next: page.next,
    };
    Ok(answer::page("audit", &page))
}
