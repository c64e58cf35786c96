//! Events that ask the control API.

use serde_json::{Map, Value, json};

/// A call of the control API as API Gateway hands it on. Values of the query are told as they are and not escaped; a body that is
/// null is none.
pub fn control(method: &str, path: &str, query: &[(&str, &str)], body: Value) -> Value {
    let event = include_str!("../../events/rules-rest.json");
    let mut event: Value = serde_json::from_str(event).unwrap();
    event["httpMethod"] = method.into();
    event["requestContext"]["httpMethod"] = method.into();
    event["path"] = path.into();
    event["requestContext"]["path"] = format!("/prod{path}").into();
    event["pathParameters"]["proxy"] = path[1..].into();
    event["body"] = match body {
        Value::Null => Value::Null,
        body => body.to_string().into(),
    };
    let pairs = query
        .iter()
        .map(|(name, value)| ((*name).to_owned(), json!([value])));
    event["multiValueQueryStringParameters"] = pairs.collect::<Map<_, _>>().into();
    event
}
