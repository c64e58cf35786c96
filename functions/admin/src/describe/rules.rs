//! The shapes of rules.

use http_events::openapi::{Shape, reference};
use limits::rule::{Algorithm, LONGEST_WINDOW, MOST, MOST_SHARES, OnFailure, Per, Status, Tier};
use limits_postgres::record::Action;
use serde_json::{Value, json};

use super::{answered, client_id, description, kept, propagation, resource, revision};
use crate::rules::pair::UNITS;
use crate::rules::throttle::{ACTIVE, DESTINATION, MOST_TPS, SOURCE, STATUS, TERMINATED, TPS};

/// The shapes that operations on rules refer to.
pub(crate) fn shapes() -> Vec<(&'static str, Shape)> {
    vec![
        ("RuleDraft", draft().closed()),
        ("Rule", shown()),
        ("Batch", batch()),
        ("BucketDraft", bucket_draft().closed()),
        ("Bucket", bucket()),
        ("ServiceLimitDraft", service_limit_draft().closed()),
        ("ServiceLimit", service_limit()),
        ("AuditRecord", audit()),
    ]
}

/// A rule to try.
pub(crate) fn example() -> Value {
    json!({"resource": "GET /orders/*", "tier": "premium", "limit": 100, "time_window": 60, "burst": 200})
}

fn limit() -> Shape {
    Shape::integer(0, MOST)
        .or_null()
        .meaning("Requests a window; 0 blocks, null exempts.")
}

fn time_window() -> Shape {
    Shape::integer(1, LONGEST_WINDOW).meaning("Seconds.")
}

const SPLIT: &str = "Over how many buckets a rule that all share is spread, where one is too hot: at most `limit`, and at most \
    `burst`. Each has its part of both, so that no more than the limit is ever admitted, but perhaps less; no call may cost more \
    than one share holds. Another number starts fresh.";

fn draft() -> Shape {
    let wanted = "`[METHOD ]pattern`: `*` is one segment, `**` at the end any rest, `*` alone everything. Or a service's name.";
    let draft = Shape::object()
        .required("resource", resource().meaning(wanted))
        .required("limit", limit())
        .required("time_window", time_window())
        .field(
            "client",
            client_id()
                .or_null()
                .by_default(Value::Null)
                .meaning("Null is anyone."),
        )
        .field(
            "tier",
            Shape::words(Tier::ALL)
                .or_null()
                .by_default(Value::Null)
                .meaning("Null is anyone; not beside a client."),
        )
        .field(
            "per",
            Shape::words(Per::ALL)
                .or_null()
                .by_default(Per::Client.as_str())
                .meaning("Who shares a bucket."),
        )
        .field(
            "override",
            Shape::boolean()
                .by_default(false)
                .meaning("Whether rules of broader patterns step aside."),
        )
        .field(
            "split",
            Shape::integer(1, MOST_SHARES)
                .or_null()
                .by_default(1)
                .meaning(SPLIT),
        )
        .field(
            "algorithm",
            Shape::words(Algorithm::ALL)
                .or_null()
                .by_default(Algorithm::TokenBucket.as_str())
                .meaning("How a bucket counts."),
        )
        .field(
            "burst",
            Shape::integer(1, MOST)
                .or_null()
                .by_default(Value::Null)
                .meaning("Capacity of a token or leaky bucket; null follows the algorithm."),
        )
        .field(
            "on_failure",
            Shape::words(OnFailure::ALL)
                .or_null()
                .by_default(OnFailure::Limit.as_str())
                .meaning("What happens while Redis is out."),
        )
        .field(
            "status",
            Shape::words(Status::ALL)
                .or_null()
                .by_default(Status::Active.as_str())
                .meaning("Whether it is in force."),
        )
        .field("description", description())
        .field(
            "id",
            Shape::text()
                .or_null()
                .meaning("That of the path, or left out."),
        );
    answered(draft)
}

fn shown() -> Shape {
    let shown = Shape::object()
        .required("id", Shape::uuid())
        .required("resource", resource())
        .required("client", client_id().or_null())
        .required("tier", Shape::words(Tier::ALL).or_null())
        .required("per", Shape::words(Per::ALL))
        .required("override", Shape::boolean())
        .required("split", Shape::integer(1, MOST_SHARES))
        .required("algorithm", Shape::words(Algorithm::ALL))
        .required("limit", limit())
        .required("time_window", time_window())
        .required("burst", Shape::integer(1, MOST).or_null())
        .required("on_failure", Shape::words(OnFailure::ALL))
        .required("status", Shape::words(Status::ALL))
        .required("description", Shape::text());
    kept(shown)
}

fn batch() -> Shape {
    let upsert = Shape::list(reference("RuleDraft"))
        .or_null()
        .meaning("One with an id replaces that rule, or is made with it; one without replaces the one in its place, or is made.");
    let delete = Shape::list(Shape::uuid())
        .or_null()
        .meaning("The ids of rules.");
    Shape::object()
        .field("upsert", upsert)
        .field("delete", delete)
        .closed()
}

fn bucket_draft() -> Shape {
    let units: Vec<&str> = UNITS.iter().map(|(unit, _)| *unit).collect();
    let draft = Shape::object()
        .field(
            "user",
            client_id().or_null().meaning("Who; null is anyone."),
        )
        .field(
            "api",
            resource()
                .or_null()
                .meaning("What is called; null is everything."),
        )
        .required("tokens", limit())
        .required(
            "time_unit",
            Shape::words(&units)
                .or_null()
                .meaning("The window; null beside a `time_window` that is no unit."),
        )
        .field("time_window", time_window().or_null())
        .field(
            "capacity",
            Shape::integer(1, MOST)
                .or_null()
                .meaning("As many as `tokens` where it is left out."),
        )
        .field("id", Shape::anything().meaning("Ignored."));
    answered(draft)
}

fn bucket() -> Shape {
    let units: Vec<&str> = UNITS.iter().map(|(unit, _)| *unit).collect();
    Shape::object()
        .required("id", Shape::uuid())
        .required("user", client_id().or_null())
        .required("api", resource().or_null())
        .required("tokens", limit())
        .required("time_unit", Shape::words(&units).or_null())
        .field("time_window", time_window())
        .required("capacity", Shape::integer(1, MOST).or_null())
        .required("revision", revision())
        .field("propagation", propagation())
}

fn service_limit_draft() -> Shape {
    let draft = Shape::object()
        .required(SOURCE, client_id().meaning("The one that calls."))
        .required(
            DESTINATION,
            client_id()
                .like(r"^[^\u0000-\u001f\u007f-\u009f/*?{} ]*$")
                .meaning("The one that is called."),
        )
        .required(
            TPS,
            Shape::integer(0, MOST_TPS).meaning("Requests a second; 0 lets nothing pass."),
        )
        .field(
            STATUS,
            Shape::words(&[ACTIVE, TERMINATED])
                .or_null()
                .by_default(ACTIVE)
                .meaning("Whether it is enforced."),
        )
        .field("default", Shape::anything().meaning("Ignored."));
    answered(draft)
}

fn service_limit() -> Shape {
    Shape::object()
        .required(SOURCE, client_id())
        .required(DESTINATION, client_id())
        .required(TPS, Shape::integer(0, MOST_TPS))
        .required(STATUS, Shape::words(&[ACTIVE, TERMINATED]))
        .required("revision", revision())
        .required("propagation", propagation())
}

fn audit() -> Shape {
    let actions = Action::ALL.map(|action| json!(action).as_str().unwrap_or_default().to_owned());
    Shape::object()
        .required("id", Shape::text())
        .required("revision", revision())
        .required("at", Shape::moment())
        .required(
            "actor",
            Shape::text().meaning("The ARN of an IAM identity, or `anonymous`."),
        )
        .required("action", Shape::words(&actions))
        .required("rule_id", Shape::uuid().or_null())
        .required("client_id", client_id().or_null())
        .required("key_id", Shape::uuid().or_null())
        .required("before", Shape::object().or_null())
        .required("after", Shape::object().or_null())
}
