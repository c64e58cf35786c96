//! What the operations have in common in what they say of themselves.

pub(crate) mod clients;
pub(crate) mod rules;

use axum::http::StatusCode;
pub(crate) use http_events::openapi::client_id;
use http_events::openapi::{Answer, Operation, Shape, printed, reference};
use limits::pattern::LONGEST as LONGEST_RESOURCE;
use limits::rule::LONGEST_DESCRIPTION;
use limits_postgres::page::{MOST, USUAL};

use crate::announcement::Propagation;

/// An operation that asks the database.
pub(crate) fn operation(id: &str, summary: &str) -> Operation {
    Operation::new(id, summary).problem(StatusCode::SERVICE_UNAVAILABLE)
}

/// An operation that writes, which a replica refuses.
pub(crate) fn writing(id: &str, summary: &str) -> Operation {
    operation(id, summary).problem(StatusCode::CONFLICT)
}

/// An operation that changes what it takes to be there.
pub(crate) fn if_match(operation: Operation) -> Operation {
    let tags = Shape::text().meaning("Only if its `ETag` is one of these; `*` is any.");
    operation
        .header("If-Match", tags)
        .problem(StatusCode::PRECONDITION_FAILED)
}

/// An operation that tells a list in pages, and nothing else.
pub(crate) fn listing(operation: Operation, name: &str, item: &str) -> Operation {
    paged(operation).answer(Answer::json(StatusCode::OK, "A page.", page(name, item)))
}

/// A page of a list.
pub(crate) fn page(name: &str, item: &str) -> Shape {
    let next = Shape::text()
        .or_null()
        .meaning("The `cursor` of the next page; null at the end.");
    Shape::object()
        .required(name, Shape::list(reference(item)))
        .required("next", next)
}

/// An operation that tells in pages.
pub(crate) fn paged(operation: Operation) -> Operation {
    let most = u64::try_from(MOST).unwrap_or(u64::MAX);
    let limit = Shape::integer(1, most)
        .by_default(USUAL)
        .meaning("How many items a page shall have.");
    let cursor = Shape::text().meaning("The `next` of the page before.");
    operation.query("limit", limit).query("cursor", cursor)
}

/// The answer to a write: the thing as it is now.
pub(crate) fn written(status: StatusCode, shape: &str) -> Answer {
    tagged(announced(Answer::json(
        status,
        "As it is now.",
        reference(shape),
    )))
}

/// The answer to a deletion.
pub(crate) fn gone() -> Answer {
    announced(Answer::empty(StatusCode::NO_CONTENT, "It is gone."))
}

/// An answer that tells the revision of a write, and how far its news got.
pub(crate) fn announced(answer: Answer) -> Answer {
    answer
        .header("Weir-Revision", revision())
        .header("Weir-Propagation", propagation())
}

/// An answer with the tag that `If-Match` takes.
pub(crate) fn tagged(answer: Answer) -> Answer {
    answer.header("ETag", Shape::text().meaning("Its revision, in quotes."))
}

/// A revision.
pub(crate) fn revision() -> Shape {
    Shape::count().meaning("The revision of the last change.")
}

/// How far the news of a write got.
pub(crate) fn propagation() -> Shape {
    Shape::words(&[Propagation::Announced, Propagation::Pending].map(Propagation::as_str)).meaning(
        "Whether the change was announced; the schedule brings a pending one within a minute.",
    )
}

/// What a rule is about.
pub(crate) fn resource() -> Shape {
    printed(1, LONGEST_RESOURCE)
}

/// A description that is written.
fn description() -> Shape {
    Shape::text()
        .length(0, LONGEST_DESCRIPTION)
        .or_null()
        .by_default("")
        .meaning("For people.")
}

/// What is written, beside which what was answered may stand.
fn answered(shape: Shape) -> Shape {
    let told = ["revision", "propagation", "created_at", "updated_at"];
    told.into_iter().fold(shape, |shape, name| {
        shape.field(name, Shape::anything().meaning("Ignored."))
    })
}

/// What is shown of all that is kept.
fn kept(shape: Shape) -> Shape {
    shape
        .required("revision", revision())
        .required("created_at", Shape::moment())
        .required("updated_at", Shape::moment())
        .field("propagation", propagation())
}
