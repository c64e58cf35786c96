//! What is wrong with a rule as a whole, told beside what its fields get wrong by themselves.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::fields::{Fault, Fields};
use crate::rule::{Draft, Rule};

/// What is wrong with a rule in JSON beside what each field gets wrong by itself, which is `told`: the constructor is asked about
/// a rule in which sound values stand for what is missing and for what was told already, so that all is told at once.
///
/// ```
/// use limits::{Fault, faults_of_the_whole};
/// let rule = serde_json::json!({"resource": "/a*", "limit": "many", "time_window": 0});
/// let told = [Fault::new("limit", "must be an integer")];
/// let more = faults_of_the_whole(&rule, &told);
/// let fields: Vec<&str> = more.iter().map(|fault| fault.field.as_str()).collect();
/// assert_eq!(fields, ["resource", "time_window"]);
/// ```
pub fn faults_of_the_whole(rule: &Value, told: &[Fault]) -> Vec<Fault> {
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
    let faults = draft.and_then(|draft| Rule::new(Uuid::nil(), draft).err());
    let mut faults = faults.unwrap_or_default();
    faults.retain(|fault| told.iter().all(|told| told.field != fault.field));
    faults
}
