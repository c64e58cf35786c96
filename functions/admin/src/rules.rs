//! The operations on rules, and those that run the system.

pub(crate) mod audit;
pub(crate) mod batch;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod list;
pub(crate) mod pair;
pub(crate) mod refresh;
pub(crate) mod replace;
pub(crate) mod revision;
pub(crate) mod show;

use axum::http::header::ALLOW;
use axum::http::{HeaderValue, StatusCode};
use http_events::Problem;
use limits::{Draft, Fault, Fields};
use serde_json::{Value, json};
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

/// What is wrong with a rule beside what each field gets wrong by itself: the constructor is asked about a rule in which sound
/// values stand for what is missing and for what was told already, so that all is told at once.
fn faults_of_the_whole(rule: &Value, told: &[Fault]) -> Vec<Fault> {
    let Some(mut sound) = rule.as_object().cloned() else {
        return Vec::new();
    };
    for fault in told {
        sound.remove(&fault.field);
    }
    for (name, value) in [
        ("resource", json!("/")),
        ("limit", json!(1)),
        ("time_window", json!(1)),
    ] {
        sound.entry(name).or_insert(value);
    }
    let sound = Value::Object(sound);
    let draft = Fields::of(&sound)
        .ok()
        .and_then(|mut fields| Draft::read(&mut fields));
    let faults = draft.and_then(|draft| limits::Rule::new(Uuid::nil(), draft).err());
    let mut faults = faults.unwrap_or_default();
    faults.retain(|fault| told.iter().all(|told| told.field != fault.field));
    faults
}

fn read_id(fields: &mut Fields<'_>, own: Option<Uuid>) {
    let told = fields.text("id");
    if let (Some(told), Some(own)) = (told, own)
        && Uuid::try_parse(told).ok() != Some(own)
    {
        fields.fault("id", format!("must be {own}, as in the path, or left out"));
    }
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
