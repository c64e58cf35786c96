//! The operations on rules, and those that run the system.

pub(crate) mod audit;
pub(crate) mod batch;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod explain;
pub(crate) mod list;
pub(crate) mod pair;
pub(crate) mod refresh;
pub(crate) mod replace;
pub(crate) mod reset;
pub(crate) mod revision;
pub(crate) mod show;
pub(crate) mod throttle;
mod wording;

use axum::http::header::ALLOW;
use axum::http::{HeaderValue, StatusCode};
use http_events::Problem;
use http_events::openapi::Shape;
use limits::{Draft, Fields, faults_of_the_whole};
use serde_json::Value;
use uuid::Uuid;

use crate::body::fields;

/// The rule in a body. Its `id`, which what was answered holds, must be `own` where there is one.
fn read_rule(body: &Value, own: Option<Uuid>) -> Result<Draft, Problem> {
    let mut fields = fields(body)?;
    read_id(&mut fields, own);
    let draft = Draft::read(&mut fields);
    let mut faults = fields.finish();
    faults.extend(faults_of_the_whole(body, &faults));
    match draft {
        Some(draft) if faults.is_empty() => Ok(draft),
        _ => Err(Problem::faults(faults)),
    }
}

fn read_id(fields: &mut Fields<'_>, own: Option<Uuid>) {
    let told = fields.text("id");
    if let (Some(told), Some(own)) = (told, own)
        && Uuid::try_parse(told).ok() != Some(own)
    {
        fields.fault("id", format!("must be {own}, as in the path, or left out"));
    }
}

/// The rest of a path, as it is described.
fn name() -> Shape {
    Shape::text()
        .not_empty()
        .meaning("The id of a rule; to look, also a resource, percent-encoded.")
        .example(Uuid::from_u128(0x0197_9c4e_0000_7000_8000_0000_0000_002a).to_string())
}

/// The id that the rest of a path is.
fn id_of(name: &str) -> Option<Uuid> {
    Uuid::try_parse(name).ok()
}

/// The id that the rest of a path must be.
fn required_id(name: &str) -> Result<Uuid, Problem> {
    id_of(name).ok_or_else(|| {
        Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "a resource can be read; a rule is changed by its id, at /ratelimit/rules/{id}",
        )
        .header(ALLOW, HeaderValue::from_static("GET, HEAD"))
    })
}
