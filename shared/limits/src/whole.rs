//! What is wrong with a rule as a whole, told beside what its fields get wrong by themselves.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::fields::{Fault, Fields};
use crate::rule::{Draft, MOST_SHARES, Per, Rule};

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
    for (name, value) in [
        ("resource", json!("/")),
        ("limit", json!(MOST_SHARES)),
        ("time_window", json!(1)),
    ] {
        sound.entry(name).or_insert(value);
    }
    for fault in told {
        // What is wrong may not be said to make other fields wrong: these are what any `split` goes with.
        let value = match fault.field.as_str() {
            "resource" => Some(json!("/")),
            "limit" | "burst" => Some(json!(MOST_SHARES)),
            "time_window" => Some(json!(1)),
            "per" => Some(json!(Per::All)),
            _ => None,
        };
        sound.remove(&fault.field);
        sound.extend(value.map(|value| (fault.field.clone(), value)));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_one_field_makes_no_other_wrong() {
        let fields = |told: &str, rule: Value| {
            let told = [Fault::new(told, "is wrong")];
            let faults = faults_of_the_whole(&rule, &told);
            faults
                .into_iter()
                .map(|fault| fault.field)
                .collect::<Vec<_>>()
        };
        let spread = |name: &str, value: Value| {
            let mut rule =
                json!({"resource": "/", "limit": 64, "time_window": 1, "per": "all", "split": 64});
            rule[name] = value;
            rule
        };
        for (name, value) in [
            ("limit", json!("many")),
            ("burst", json!(-1)),
            ("per", json!("galaxy")),
            ("time_window", json!(0)),
            ("resource", json!("/a*")),
        ] {
            assert!(fields(name, spread(name, value)).is_empty(), "{name}");
        }
        let mut leaky = spread("burst", json!("x"));
        leaky["algorithm"] = json!("leaky_bucket");
        assert!(fields("burst", leaky).is_empty());
        let mut left_out = spread("split", json!(65));
        left_out.as_object_mut().unwrap().remove("limit");
        assert_eq!(fields("limit", left_out), ["split"]);
    }
}
