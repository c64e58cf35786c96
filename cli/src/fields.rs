//! A rule's fields one by one, as they are shown and written.

use limits::Draft;
use serde_json::Value;

/// The order in which a reader looks for them. What is not named comes after.
const ORDER: [&str; 13] = [
    "resource",
    "client",
    "tier",
    "per",
    "override",
    "split",
    "algorithm",
    "limit",
    "time_window",
    "burst",
    "on_failure",
    "status",
    "description",
];

/// What is written even where it is as usual.
const ALWAYS: [&str; 3] = ["resource", "limit", "time_window"];

/// Every field of a draft with its value, in the order of reading.
pub(crate) fn fields(draft: &Draft) -> Vec<(String, Value)> {
    let Ok(Value::Object(map)) = serde_json::to_value(draft) else {
        return Vec::new();
    };
    let mut fields: Vec<(String, Value)> = map.into_iter().collect();
    let place = |name: &str| {
        ORDER
            .iter()
            .position(|other| *other == name)
            .unwrap_or(ORDER.len())
    };
    fields.sort_by(|(a, _), (b, _)| place(a).cmp(&place(b)).then_with(|| a.cmp(b)));
    fields
}

/// The fields that make a draft what it is: those that are always written, and those that are not as usual.
pub(crate) fn told_fields(draft: &Draft) -> Vec<(String, Value)> {
    let usual = Draft::new(draft.resource.as_str(), draft.limit, draft.time_window);
    let usual = fields(&usual);
    let mut told = fields(draft);
    told.retain(|field| ALWAYS.contains(&field.0.as_str()) || !usual.contains(field));
    told
}
