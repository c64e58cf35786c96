//! A request of whose buckets one server's are out, and the others' are well.

use std::time::Duration;

use limits::Lane;
use limits_redis::keys::Keys;
use serde_json::{Value, json};
use tests::{Container, Function, Operator, RedisCluster};

use crate::check::{Answer, event, send};
use crate::clusters::client_on;

/// Asks for so many for a client.
async fn take(container: &Container, client: &str, tokens: u64) -> Answer {
    let path = format!("/ratelimit/status/{client}");
    let mut event = event("POST", &path, "", None);
    event["isBase64Encoded"] = false.into();
    event["body"] = json!({ "resource": "/x", "tokens": tokens })
        .to_string()
        .into();
    send(container, &event).await
}

fn rule(per: &str, limit: u64, status: &str) -> Value {
    json!({ "resource": "*", "per": per, "limit": limit, "time_window": 31_622_400, "algorithm": "fixed_window", "status": status })
}

async fn check(operator: &Operator) -> Container {
    let own = [("CHECK_ANONYMOUS", "allow"), ("REDIS_TIMEOUT_MS", "500")];
    operator.container(Function::Check, &own).await
}

#[tokio::test]
async fn a_server_that_is_out_undoes_no_denial_of_another_and_has_no_say_for_what_only_watches() {
    let mut cluster = RedisCluster::start(0).await;
    let slot = cluster.slot_of(&Keys::default().epoch(Lane::SHARED)).await;
    let shared = cluster.primary_of(slot).await;
    let client = client_on(&cluster, (shared + 1) % 3).await;

    let limited = Operator::at(&cluster.url()).await;
    let rules = vec![rule("client", 100, "active"), rule("all", 1000, "active")];
    limited.rules(rules).await;
    let limited = check(&limited).await;
    assert_eq!(take(&limited, &client, 99).await.status, 200);

    let watched = Operator::at(&cluster.url()).await;
    let mut own = rule("client", 100, "active");
    own["on_failure"] = "deny".into();
    watched.rules(vec![own, rule("all", 1000, "shadow")]).await;
    let watched = check(&watched).await;
    assert_eq!(take(&watched, &client, 1).await.status, 200);

    cluster.node_mut(shared).pause();
    // One is left; the share that a container grants by itself would be ten.
    for tokens in 2..7 {
        let answer = take(&limited, &client, tokens).await;
        let told = (answer.status, answer.body["reason"].clone());
        assert_eq!(told, (429, "limit".into()), "{}", limited.logs());
    }
    // For which there is room where it can be asked, that is for each container to grant.
    let answer = take(&limited, &client, 1).await;
    let told = (answer.status, answer.body["remaining"].clone());
    assert_eq!(told, (200, 9.into()));

    for left in (90..99).rev() {
        let answer = take(&watched, &client, 1).await;
        let told = (answer.status, answer.body["remaining"].clone());
        assert_eq!(told, (200, left.into()), "{}", watched.logs());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    cluster.node_mut(shared).resume();
}

#[tokio::test]
async fn news_that_does_not_come_costs_nobody_the_answer_of_a_server_that_is_well() {
    let mut cluster = RedisCluster::start(0).await;
    let operator = Operator::at(&cluster.url()).await;
    let mut own = rule("client", 1000, "active");
    own["on_failure"] = "deny".into();
    operator.rule(own).await;
    let container = check(&operator).await;
    // Where the rules are published.
    let out = cluster.primary_of(cluster.slot_of("{rules}").await).await;
    let lost = client_on(&cluster, out).await;
    let well = client_on(&cluster, (out + 1) % 3).await;
    for client in [&lost, &well] {
        assert_eq!(take(&container, client, 1).await.status, 200);
    }
    cluster.node_mut(out).pause();
    for _ in 0..3 {
        assert_eq!(take(&container, &lost, 1).await.status, 503);
        for _ in 0..4 {
            // Longer than the server is left alone for at first.
            tokio::time::sleep(Duration::from_millis(110)).await;
            let status = take(&container, &well, 1).await.status;
            assert_eq!(status, 200, "{}", container.logs());
        }
    }
    cluster.node_mut(out).resume();
}
