//! Those who fail to identify themselves: what they cost, and what they cannot do to others.

use std::time::Duration;

use local::servers::Redis;
use serde_json::{Value, json};
use tests::issuer::{AUDIENCE, ISSUER, SigningKey, claims, key_set};
use tests::{Container, Function, FunctionError, Operator};

const KEY: &str = "a-key-of-eve";

/// A call from an address, with a header.
fn call(address: &str, name: &str, value: &str) -> Value {
    let mut event: Value =
        serde_json::from_str(include_str!("../../events/authorizer-rest.json")).unwrap();
    for headers in ["headers", "multiValueHeaders"] {
        event[headers].as_object_mut().unwrap().remove("x-api-key");
    }
    event["headers"][name] = value.into();
    event["multiValueHeaders"][name] = json!([value]);
    event["requestContext"]["identity"]["sourceIp"] = address.into();
    event
}

fn showing(address: &str, key: &str) -> Value {
    call(address, "x-api-key", key)
}

fn told<T>(word: &str) -> Result<T, FunctionError> {
    Err(FunctionError {
        error_type: word.to_owned(),
        error_message: word.to_owned(),
    })
}

async fn passes(container: &Container, event: &Value) -> bool {
    match container.invoke(event).await {
        Ok(answer) => answer["policyDocument"]["Statement"][0]["Effect"] == "Allow",
        Err(error) => {
            assert_eq!(error.error_message, "Unauthorized");
            false
        }
    }
}

/// Eve has a key, and another that no container has seen.
async fn at(redis: &Redis) -> Operator {
    let operator = Operator::at(&redis.url()).await;
    operator.client("eve", json!({})).await;
    operator.key("eve", KEY).await;
    operator.key("eve", "a-second-key-of-eve").await;
    operator
}

/// How many commands a Redis has been sent, this question left out.
async fn commands(redis: &Redis) -> u64 {
    let client = redis::Client::open(redis.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let info: String = redis::cmd("INFO")
        .arg("commandstats")
        .query_async(&mut connection)
        .await
        .unwrap();
    let ours = ["cmdstat_info", "cmdstat_client", "cmdstat_hello"];
    let others = info.lines().filter(|line| {
        line.starts_with("cmdstat_") && !ours.iter().any(|own| line.starts_with(own))
    });
    others
        .filter_map(|line| {
            line.split_once("calls=")?
                .1
                .split(',')
                .next()?
                .parse::<u64>()
                .ok()
        })
        .sum()
}

#[tokio::test]
async fn who_fails_too_often_costs_redis_nothing_and_keeps_no_known_key_out() {
    let mut redis = Redis::start().unwrap();
    let operator = at(&redis).await;
    let few = [("ANONYMOUS_LIMIT", "5/86400s"), ("REDIS_TIMEOUT_MS", "100")];
    let container = operator.container(Function::Authorizer, &few).await;
    let (nat, elsewhere) = ("192.0.2.1", "192.0.2.2");
    assert!(passes(&container, &showing(nat, KEY)).await);
    for n in 0..5 {
        let before = commands(&redis).await;
        let guess = showing(nat, &format!("guess-{n}"));
        assert_eq!(container.invoke(&guess).await, told("Unauthorized"));
        assert!(commands(&redis).await > before, "looked up");
    }
    let before = commands(&redis).await;
    for n in 5..30 {
        let guess = showing(nat, &format!("guess-{n}"));
        assert_eq!(container.invoke(&guess).await, told("Unauthorized"));
    }
    // Nor is a good key looked up that this container has never seen.
    let second = showing(nat, "a-second-key-of-eve");
    assert_eq!(container.invoke(&second).await, told("Unauthorized"));
    assert_eq!(commands(&redis).await, before);

    assert!(passes(&container, &showing(nat, KEY)).await);
    // Seen from elsewhere, it is known.
    assert!(passes(&container, &showing(elsewhere, "a-second-key-of-eve")).await);
    assert!(passes(&container, &second).await);
    redis.pause();
    let guess = showing(nat, "another guess");
    assert_eq!(container.invoke(&guess).await, told("Unauthorized"));
    let guess = showing(elsewhere, "another guess");
    assert_eq!(container.invoke(&guess).await, told("StoreUnavailable"));
    assert!(passes(&container, &showing(nat, KEY)).await);
}

#[tokio::test]
async fn what_is_no_failure_is_not_counted_as_one() {
    let redis = Redis::start().unwrap();
    let operator = at(&redis).await;
    operator.client("mallory", json!({})).await;
    operator.key("mallory", "a-key-of-mallory").await;
    let terminated = json!({ "status": "terminated" });
    operator.replace_client("mallory", terminated).await;
    let rule = json!({ "resource": "*", "limit": 1, "time_window": 86_400 });
    operator.rule(rule).await;
    let few = [("ANONYMOUS_LIMIT", "1/86400s")];
    let container = operator.container(Function::Authorizer, &few).await;
    let address = "2001:db8::1";
    for _ in 0..5 {
        // Nothing is shown; one who is known, and refused or throttled.
        let nothing = call(address, "Accept", "*/*");
        assert_eq!(container.invoke(&nothing).await, told("Unauthorized"));
        let gone = showing(address, "a-key-of-mallory");
        assert_eq!(container.invoke(&gone).await, told("Unauthorized"));
        container.invoke(&showing(address, KEY)).await.unwrap();
    }
    container
        .invoke(&showing(address, "a-second-key-of-eve"))
        .await
        .unwrap();
    // One failure, and the whole /64 has failed.
    let guess = showing("2001:db8::2", "guess");
    assert_eq!(container.invoke(&guess).await, told("Unauthorized"));
    let before = commands(&redis).await;
    let guess = showing(address, "guess");
    assert_eq!(container.invoke(&guess).await, told("Unauthorized"));
    assert_eq!(commands(&redis).await, before);
}

#[tokio::test]
async fn a_key_that_was_good_and_is_not_any_more_is_refused_whoever_fails() {
    let redis = Redis::start().unwrap();
    let operator = at(&redis).await;
    let third = operator.key("eve", "a-third-key-of-eve").await;
    let few = [("ANONYMOUS_LIMIT", "1/86400s")];
    let container = operator.container(Function::Authorizer, &few).await;
    let key = showing("192.0.2.1", "a-third-key-of-eve");
    assert!(passes(&container, &key).await);
    assert!(!passes(&container, &showing("192.0.2.1", "guess")).await);
    assert!(passes(&container, &key).await);
    operator.delete_key("eve", third).await;
    for _ in 0..3 {
        assert_eq!(container.invoke(&key).await, told("Unauthorized"));
    }
}

#[tokio::test]
async fn a_flood_from_an_address_keeps_others_there_out_no_longer_than_it_lasts() {
    let redis = Redis::start().unwrap();
    let operator = at(&redis).await;
    let quick = [("ANONYMOUS_LIMIT", "2/1s")];
    let container = operator.container(Function::Authorizer, &quick).await;
    for n in 0..50 {
        let guess = showing("192.0.2.1", &format!("guess-{n}"));
        assert!(!passes(&container, &guess).await);
    }
    let again = async { while !passes(&container, &showing("192.0.2.1", KEY)).await {} };
    let within = Duration::from_secs(30);
    tokio::time::timeout(within, again).await.unwrap();
}

#[tokio::test]
async fn bad_tokens_are_failures_and_a_good_one_passes_whoever_failed_before() {
    let redis = Redis::start().unwrap();
    let operator = at(&redis).await;
    let key = SigningKey::es256("c");
    let keys = key_set(&[&key]);
    let variables = [
        ("IDENTITY", "jwt,api-key"),
        ("JWT_JWKS", keys.as_str()),
        ("JWT_ISSUER", ISSUER),
        ("JWT_AUDIENCE", AUDIENCE),
        ("ANONYMOUS_LIMIT", "3/86400s"),
    ];
    let container = operator.container(Function::Authorizer, &variables).await;
    let bearing = |token: &str| call("192.0.2.1", "authorization", &format!("Bearer {token}"));
    let forged = SigningKey::es256("c").token(&claims("eve"));
    let before = commands(&redis).await;
    for token in [forged.as_str(), "a.b.c", "", &forged] {
        let answer = container.invoke(&bearing(token)).await;
        assert_eq!(answer, told("Unauthorized"));
    }
    let loaded = commands(&redis).await;
    let guess = showing("192.0.2.1", KEY);
    assert_eq!(container.invoke(&guess).await, told("Unauthorized"));
    assert_eq!(commands(&redis).await, loaded, "{before}");
    let good = bearing(&key.token(&claims("eve")));
    assert!(passes(&container, &good).await);
    assert!(passes(&container, &showing("192.0.2.2", KEY)).await);
}

#[tokio::test]
async fn without_a_limit_every_guess_is_looked_up() {
    let redis = Redis::start().unwrap();
    let operator = at(&redis).await;
    let unlimited = [("ANONYMOUS_LIMIT", "unlimited")];
    let container = operator.container(Function::Authorizer, &unlimited).await;
    for n in 0..100 {
        let guess = showing("192.0.2.1", &format!("guess-{n}"));
        assert!(!passes(&container, &guess).await);
    }
    assert!(passes(&container, &showing("192.0.2.1", KEY)).await);

    let wrong = [("ANONYMOUS_LIMIT", "0/60s"), ("DEFAULT_LIMIT", "many")];
    let container = operator.container(Function::Authorizer, &wrong).await;
    let error = container.ready().await.unwrap_err().error_message;
    for name in ["ANONYMOUS_LIMIT must be", "DEFAULT_LIMIT must be"] {
        assert!(error.contains(name), "no {name} in: {error}");
    }
}
