//! The shapes of clients and their keys.

use http_events::openapi::Shape;
use limits::registry::{ClientStatus, MayAsk};
use limits::rule::Tier;
use limits_postgres::change_clients::LONGEST_PRINCIPAL;
use serde_json::Value;

use super::{answered, client_id, description, kept, propagation, revision};

/// The shapes that operations on clients refer to.
pub(crate) fn shapes() -> Vec<(&'static str, Shape)> {
    let created = draft().required("client_id", client_id()).closed();
    let replaced = draft()
        .field(
            "client_id",
            Shape::text()
                .or_null()
                .meaning("That of the path, or left out."),
        )
        .closed();
    vec![
        ("ClientDraft", created),
        ("ClientReplacement", replaced),
        ("Client", shown()),
        ("KeyDraft", key_draft().closed()),
        ("NewKey", new_key()),
        ("Key", key()),
    ]
}

fn draft() -> Shape {
    let draft = Shape::object()
        .field(
            "tier",
            Shape::words(Tier::ALL)
                .or_null()
                .by_default(Tier::Free.as_str()),
        )
        .field(
            "status",
            Shape::words(ClientStatus::ALL)
                .or_null()
                .by_default(ClientStatus::Active.as_str()),
        )
        .field(
            "principal",
            Shape::text()
                .length(1, LONGEST_PRINCIPAL)
                .or_null()
                .by_default(Value::Null)
                .meaning("The ARN of the IAM user or role that it comes as."),
        )
        .field(
            "may_ask",
            Shape::words(MayAsk::ALL)
                .or_null()
                .by_default(MayAsk::Itself.as_str())
                .meaning("About whom it may ask the check API."),
        )
        .field("description", description());
    answered(draft)
}

fn shown() -> Shape {
    let shown = Shape::object()
        .required("client_id", client_id())
        .required("tier", Shape::words(Tier::ALL))
        .required("status", Shape::words(ClientStatus::ALL))
        .required("principal", Shape::text().or_null())
        .required("may_ask", Shape::words(MayAsk::ALL))
        .required("description", Shape::text());
    kept(shown)
}

fn key_draft() -> Shape {
    let draft = Shape::object().field("description", description()).field(
        "expires_at",
        Shape::moment()
            .or_null()
            .by_default(Value::Null)
            .meaning("Null is never."),
    );
    answered(draft)
}

fn key_told() -> Shape {
    Shape::object()
        .required("key_id", Shape::uuid())
        .required("description", Shape::text())
        .required("created_at", Shape::moment())
        .required("expires_at", Shape::moment().or_null())
        .required("revision", revision())
}

fn new_key() -> Shape {
    key_told()
        .required(
            "api_key",
            Shape::text().meaning("The secret, shown this once."),
        )
        .required("propagation", propagation())
}

fn key() -> Shape {
    key_told().required("client_id", client_id())
}
