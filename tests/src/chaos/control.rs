//! Calls of the control API, which may fail.

use serde_json::Value;

use crate::{Container, answer, question};

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

/// One call, as [`question::control`] has it.
pub(super) async fn call(
    function: &Container,
    method: &str,
    path: &str,
    query: &[(&str, &str)],
    body: Value,
) -> Told {
    let event = question::control(method, path, query, body);
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
