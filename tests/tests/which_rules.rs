//! Which rules apply to a call, as its caller is told.

use serde_json::{Value, json};
use tests::{Function, Operator};

use crate::algorithms::{ask, check};

fn rule(resource: &str, limit: Value) -> Value {
    json!({"resource": resource, "limit": limit, "time_window": 86_400})
}

fn with(mut rule: Value, fields: Value) -> Value {
    let fields = fields.as_object().unwrap().clone();
    rule.as_object_mut().unwrap().extend(fields);
    rule
}

/// What is told of an answer: its status, its reason and what is left.
fn told(answer: &Value) -> (String, String, Option<u64>) {
    let word = |name: &str| answer[name].as_str().unwrap().to_owned();
    (word("status"), word("reason"), answer["remaining"].as_u64())
}

fn allowed(reason: &str, remaining: impl Into<Option<u64>>) -> (String, String, Option<u64>) {
    ("allowed".to_owned(), reason.to_owned(), remaining.into())
}

fn blocked(reason: &str) -> (String, String, Option<u64>) {
    ("blocked".to_owned(), reason.to_owned(), Some(0))
}

#[tokio::test]
async fn where_no_rule_fits_a_client_has_one_bucket_for_all_paths() {
    let operator = Operator::new().await;
    // Neither is in force.
    operator
        .rule(with(rule("*", json!(1)), json!({"status": "terminated"})))
        .await;
    operator
        .rule(with(rule("/**", json!(1)), json!({"status": "shadow"})))
        .await;
    let variables = [("CHECK_ANONYMOUS", "allow"), ("DEFAULT_LIMIT", "3/86400s")];
    let limited = operator.container(Function::Check, &variables).await;
    for (resource, left) in [("GET /a", 2), ("POST /b/c", 1), ("billing", 0)] {
        let answer = ask(&limited, "eve", resource, 1).await;
        assert_eq!(told(&answer), allowed("default", left), "{resource}");
        assert_eq!(answer["rule_id"], Value::Null);
    }
    let denied = ask(&limited, "eve", "GET /d", 1).await;
    assert_eq!(told(&denied), blocked("limit"));
    assert_eq!(
        (&denied["rule_id"], &denied["limit"]),
        (&json!(null), &json!(3))
    );
    let other = ask(&limited, "bob", "GET /a", 1).await;
    assert_eq!(told(&other), allowed("default", 2));

    let variables = [("CHECK_ANONYMOUS", "allow"), ("DEFAULT_LIMIT", "unlimited")];
    let unlimited = operator.container(Function::Check, &variables).await;
    for _ in 0..5 {
        let answer = ask(&unlimited, "eve", "GET /a", 1).await;
        assert_eq!(told(&answer), allowed("default", None));
    }
}

#[tokio::test]
async fn the_closest_level_of_a_pattern_wins_and_all_its_rules_apply() {
    let operator = Operator::new().await;
    for id in ["eve", "ann", "old"] {
        operator.client(id, json!({"tier": "premium"})).await;
    }
    operator.rule(rule("GET /orders/{id}", json!(2))).await;
    operator
        .rule(with(
            rule("GET /orders/*", json!(4)),
            json!({"tier": "premium"}),
        ))
        .await;
    operator
        .rule(with(
            rule("GET /orders/{order}", json!(9)),
            json!({"client": "eve"}),
        ))
        .await;
    let second = json!({"client": "eve", "time_window": 31_622_400, "algorithm": "sliding_log"});
    operator
        .rule(with(rule("GET /orders/*", json!(7)), second))
        .await;
    let closer = json!({"client": "old", "status": "terminated"});
    operator
        .rule(with(rule("GET /orders/*", json!(1)), closer))
        .await;
    let check = check(&operator).await;
    for (client, limit) in [("eve", 7), ("ann", 4), ("old", 4), ("nobody", 2)] {
        let answer = ask(&check, client, "GET /orders/1", 1).await;
        assert_eq!(told(&answer), allowed("rule", limit - 1), "{client}");
        // Another spelling, the same bucket; another method, another rule.
        let again = ask(&check, client, "GET //orders/./%31;x=1/", 1).await;
        assert_eq!(told(&again), allowed("rule", limit - 2), "{client}");
        let other = ask(&check, client, "PUT /orders/1", 1).await;
        assert_eq!(told(&other).1, "default", "{client}");
    }
}

#[tokio::test]
async fn an_exemption_is_counted_nowhere_a_block_is_stronger_and_an_override_sets_the_broader_aside()
 {
    let operator = Operator::new().await;
    operator.rule(rule("*", json!(1))).await;
    operator
        .rule(with(rule("*", json!(null)), json!({"client": "admin"})))
        .await;
    let block = operator.rule(rule("/closed/**", json!(0))).await;
    operator
        .rule(with(
            rule("/open/**", json!(null)),
            json!({"override": true}),
        ))
        .await;
    operator
        .rule(with(
            rule("/open/but/*", json!(2)),
            json!({"override": true}),
        ))
        .await;
    // An override is about its own `per`.
    operator
        .rule(with(rule("/**", json!(6)), json!({"per": "all"})))
        .await;
    let check = check(&operator).await;
    for _ in 0..3 {
        let exempt = ask(&check, "admin", "GET /a", 1_000).await;
        assert_eq!(told(&exempt), allowed("exempt", None));
        let closed = ask(&check, "admin", "GET /closed/x", 1).await;
        assert_eq!(told(&closed), blocked("blocked"));
        assert_eq!(closed["rule_id"], block.to_string());
        assert_eq!(
            (&closed["retry_after"], &closed["retry_at"]),
            (&json!(null), &json!(null))
        );
    }
    assert_eq!(
        told(&ask(&check, "eve", "GET /a", 1).await),
        allowed("rule", 0)
    );
    assert_eq!(
        told(&ask(&check, "eve", "GET /a", 1).await),
        blocked("limit")
    );
    // What denies her elsewhere stepped aside here, and the shared bucket has not been touched by any exemption.
    assert_eq!(
        told(&ask(&check, "eve", "GET /open/x", 1).await),
        allowed("exempt", None)
    );
    assert_eq!(
        told(&ask(&check, "eve", "GET /open/but/x", 1).await),
        allowed("rule", 1)
    );
    assert_eq!(
        told(&ask(&check, "eve", "GET /open/but/x", 1).await),
        allowed("rule", 0)
    );
    let denied = ask(&check, "eve", "GET /open/but/x", 1).await;
    assert_eq!(
        (told(&denied), &denied["limit"]),
        (blocked("limit"), &json!(2))
    );
    let shared = ask(&check, "ann", "GET /b", 1).await;
    assert_eq!(
        (told(&shared), &shared["limit"]),
        (allowed("rule", 0), &json!(1))
    );
    let left = ask(&check, "bob", "GET /open/but/y", 1).await;
    assert_eq!(
        (told(&left), &left["limit"]),
        (allowed("rule", 1), &json!(6))
    );
}
