//! Calls of the control API, which may fail.

use serde_json::{Map, Value, json};

use crate::{Container, answer};

/// What it answered; a function that failed is status 0.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) status: u64,
    pub(super) revision: Option<u64>,
    pub(super) body: Value,
}

impl Told {
    pub(super) fn is_done(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// One call. Values of the query are told as they are and not escaped.
pub(super) async fn call(
    function: &Container,
    method: &str,
    path: &str,
    query: &[(&str, &str)],
    body: Value,
) -> Told {
    let event = include_str!("../../../events/rules-rest.json");
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
    let Ok(told) = function.invoke(&event).await else {
        return Told {
            status: 0,
            revision: None,
            body: Value::Null,
        };
    };
    let headers = answer::headers(&told);
    let revision = headers["weir-revision"].as_str();
    Told {
        status: told["statusCode"].as_u64().unwrap_or_default(),
        revision: revision.and_then(|text| text.parse().ok()),
        body: serde_json::from_str(told["body"].as_str().unwrap_or("null")).unwrap_or_default(),
    }
}

/// A call that must succeed.
pub(super) async fn say(function: &Container, method: &str, path: &str, body: Value) -> Told {
    let told = call(function, method, path, &[], body).await;
    assert!(told.is_done(), "{method} {path}: {told:?}");
    told
}
