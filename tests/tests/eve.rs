//! Eve, whose calls tell whether they were counted: what stories about Redis ask with.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{Container, Operator};

use crate::walks::request;

const KEY: &str = "a-key-of-eve";

/// How often she may call, and none of it comes back while one looks.
pub(crate) const LIMIT: u64 = 100_000;

/// Longer than a pause of a container, a failover, and a busy machine take together.
const PATIENCE: Duration = Duration::from_secs(40);

/// A Redis by URL in which she is known.
pub(crate) async fn at(redis: &str) -> Operator {
    let operator = Operator::at(redis).await;
    operator.client("eve", json!({})).await;
    operator.key("eve", KEY).await;
    let rule = json!({ "resource": "*", "limit": LIMIT, "time_window": 31_622_400, "algorithm": "fixed_window" });
    operator.rule(rule).await;
    operator
}

/// A call of hers.
pub(crate) fn call() -> Value {
    request(KEY)
}

/// How many calls she has left, where this one was counted in Redis. Without it she is let through, or told that it is out.
pub(crate) async fn left(authorizer: &Container) -> Option<u64> {
    let answer = match authorizer.invoke(&call()).await {
        Ok(answer) => answer,
        Err(error) => {
            assert_eq!(error.error_type, "StoreUnavailable", "{error}");
            return None;
        }
    };
    let context = &answer["context"];
    let left = context["remaining"].as_str().unwrap().parse();
    (context["degraded"] == "").then(|| left.unwrap())
}

/// Calls until it is counted, and tells how many are left then.
pub(crate) async fn until_counted(authorizer: &Container) -> u64 {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(left) = left(authorizer).await {
            return left;
        }
        assert!(Instant::now() < end, "{}", authorizer.logs());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
