//! What was published is lost, and published again by a clock that was set back: no lane tells a container that it is behind.

use std::time::Duration;

use limits_redis::keys::Keys;
use local::servers::Redis;
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};
use tests::{Container, Function, Operator};
use tokio::time::{Instant, sleep};

use crate::check::{event, send};
use crate::denials::{connection, scripts};

/// Longer than anything here should take on a slow and busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
const DAY_MS: u64 = 86_400_000;

fn rule(resource: &str, limit: u64) -> Value {
    json!({ "resource": resource, "limit": limit, "time_window": 86_400 })
}

async fn ask(check: &Container, path: &str) -> Value {
    let mut event = event("POST", "/ratelimit/status/eve", "", None);
    event["body"] = json!({ "resource": path }).to_string().into();
    send(check, &event).await.body
}

async fn lose_everything(connection: &mut MultiplexedConnection) {
    redis::cmd("FLUSHALL").exec_async(connection).await.unwrap();
}

#[tokio::test]
async fn a_container_whose_rules_are_newer_than_what_is_published_begins_afresh() {
    // Its own, to lose everything in.
    let redis = Redis::start().unwrap();
    let operator = Operator::at(&redis.url()).await;
    operator.client("eve", json!({})).await;
    let mut connection = connection(&redis).await;
    // The clock of the Redis that will be lost is a day ahead.
    let head = Keys::new(operator.prefix()).unwrap().head();
    let mut ahead = redis::cmd("HINCRBY");
    ahead.arg(&head).arg("stamp").arg(DAY_MS);
    ahead.exec_async(&mut connection).await.unwrap();
    let changed = operator.rule(rule("/changed", 5)).await;
    let deleted = operator.rule(rule("/deleted", 0)).await;
    let anyone = [("CHECK_ANONYMOUS", "allow"), ("DEFAULT_LIMIT", "unlimited")];
    let check = operator.container(Function::Check, &anyone).await;
    assert_eq!(ask(&check, "/changed").await["limit"], 5);
    assert_eq!(ask(&check, "/deleted").await["reason"], "blocked");

    lose_everything(&mut connection).await;
    // Out, as long as nothing is published; and that costs one question more a second, however many ask.
    let began = Instant::now();
    let before = scripts(&mut connection).await;
    let mut asked = 0;
    while asked < 30 || began.elapsed() < Duration::from_secs(3) {
        ask(&check, "/changed").await;
        asked += 1;
        sleep(Duration::from_millis(10)).await;
    }
    let more = (scripts(&mut connection).await - before).saturating_sub(asked);
    assert!(
        more <= began.elapsed().as_secs() + 2,
        "{more} more than {asked}"
    );

    // Changed while the container cannot see it, and published by a clock of today.
    operator.delete_rule(deleted).await;
    operator.replace_rule(changed, rule("/changed", 7)).await;
    let end = Instant::now() + PATIENCE;
    while ask(&check, "/changed").await["limit"] != 7 {
        assert!(Instant::now() < end, "{}", check.logs());
    }
    // What is not published any more is no more, and what follows is seen at once.
    assert_eq!(ask(&check, "/deleted").await["reason"], "default");
    operator.replace_rule(changed, rule("/changed", 9)).await;
    assert_eq!(ask(&check, "/changed").await["limit"], 9);
    // With that the doubt is over: a decision is one command again.
    sleep(Duration::from_millis(1_100)).await;
    let before = scripts(&mut connection).await;
    for _ in 0..3 {
        ask(&check, "/changed").await;
    }
    assert_eq!(scripts(&mut connection).await - before, 3);
}
