//! Reading what an HTTP function answers.

use serde_json::{Map, Value};

/// The headers of an answer by name: a REST API is told lists of values, an HTTP API one value each.
pub fn headers(answer: &Value) -> Value {
    let several = answer["multiValueHeaders"].as_object().into_iter();
    let one = answer["headers"].as_object().into_iter();
    let text = |value: &Value| match value.as_array() {
        Some(values) => {
            let values: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
            Value::from(values.join(", "))
        }
        None => value.clone(),
    };
    let named = several.chain(one).flatten();
    let headers: Map<String, Value> = named
        .map(|(name, value)| (name.to_ascii_lowercase(), text(value)))
        .collect();
    Value::Object(headers)
}
