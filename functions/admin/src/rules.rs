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

use limits::{Draft, Fields};
use uuid::Uuid;

use crate::body::Body;
use crate::problem::Problem;

/// The rule in a body. Its `id`, which what was answered holds, must be `own` where there is one.
fn read_rule(body: &Body, own: Option<Uuid>) -> Result<Draft, Problem> {
    let mut fields = body.fields()?;
    read_id(&mut fields, own);
    let draft = Draft::read(&mut fields);
    let faults = fields.finish();
    // What one field alone gets wrong, and what the rule as a whole does, are told together.
    let Some(draft) = draft else {
        return Err(Problem::faults(faults));
    };
    check(draft, faults)
}

fn check(draft: Draft, mut faults: Vec<limits::Fault>) -> Result<Draft, Problem> {
    if let Err(whole) = limits::Rule::new(Uuid::nil(), draft.clone()) {
        let new: Vec<_> = whole
            .into_iter()
            .filter(|fault| faults.iter().all(|told| told.field != fault.field))
            .collect();
        faults.extend(new);
    }
    if faults.is_empty() {
        Ok(draft)
    } else {
        Err(Problem::faults(faults))
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

/// The id that the rest of a path is.
fn id_of(name: &str) -> Option<Uuid> {
    Uuid::try_parse(name).ok()
}

/// The id that the rest of a path must be.
fn required_id(name: &str) -> Result<Uuid, Problem> {
    id_of(name).ok_or_else(|| {
        Problem::allow(
            "a resource can be read; a rule is changed by its id, at /ratelimit/rules/{id}",
            "GET, HEAD",
        )
    })
}
