//! The authorizer in its containers: who passes, how it is told, and what no caller can do to it.

use std::time::{Duration, Instant};

use local::servers::{End, Redis};
use serde_json::{Map, Value, json};
use tests::issuer::{AUDIENCE, ISSUER, KeyServer, Publication, SigningKey, claims, key_set};
use tests::{Container, Function, FunctionError, Operator};

use crate::denials;

const KEY: &str = "a-key-of-eve";

/// A call as a REST API asks about it.
fn call(key: Option<&str>) -> Value {
    let mut event: Value =
        serde_json::from_str(include_str!("../../events/authorizer-rest.json")).unwrap();
    for headers in ["headers", "multiValueHeaders"] {
        event[headers].as_object_mut().unwrap().remove("x-api-key");
    }
    if let Some(key) = key {
        event["headers"]["x-api-key"] = key.into();
        event["multiValueHeaders"]["x-api-key"] = json!([key]);
    }
    event
}

/// The same as an HTTP API asks about it.
fn http_call(key: &str) -> Value {
    let mut event: Value =
        serde_json::from_str(include_str!("../../events/authorizer-http.json")).unwrap();
    event["headers"]["x-api-key"] = key.into();
    event
}

fn from_address(address: &str) -> Value {
    let mut event = call(None);
    event["requestContext"]["identity"]["sourceIp"] = address.into();
    event
}

fn to_path(path: &str) -> Value {
    let mut event = call(Some(KEY));
    event["path"] = path.into();
    event
}

fn rule(resource: &str, limit: u64) -> Value {
    json!({ "resource": resource, "limit": limit, "time_window": 86_400 })
}

/// Eve has a key.
async fn operator() -> Operator {
    let operator = Operator::new().await;
    operator.client("eve", json!({ "tier": "premium" })).await;
    operator.key("eve", KEY).await;
    operator
}

async fn authorizer(operator: &Operator) -> Container {
    operator.container(Function::Authorizer, &[]).await
}

fn effect(answer: &Value) -> &str {
    let statement = &answer["policyDocument"]["Statement"][0];
    statement["Effect"].as_str().unwrap()
}

fn unauthorized() -> FunctionError {
    told("Unauthorized")
}

fn told(word: &str) -> FunctionError {
    FunctionError {
        error_type: word.to_owned(),
        error_message: word.to_owned(),
    }
}

#[tokio::test]
async fn calls_pass_until_the_limit_is_used_up_over_all_containers() {
    let operator = operator().await;
    let id = operator.rule(rule("GET /orders/{id}", 3)).await;
    let (one, two) = (authorizer(&operator).await, authorizer(&operator).await);
    for (container, remaining) in [(&one, "2"), (&two, "1"), (&one, "0")] {
        let answer = container.invoke(&call(Some(KEY))).await.unwrap();
        assert_eq!(effect(&answer), "Allow");
        assert_eq!(answer["principalId"], "eve");
        assert_eq!(answer["context"]["remaining"], remaining);
        assert_eq!(answer["context"]["decision"], "allowed");
        assert_eq!(answer["context"]["reason"], "rule");
        assert_eq!(answer["context"]["tier"], "premium");
    }
    for container in [&one, &two] {
        let answer = container.invoke(&call(Some(KEY))).await.unwrap();
        assert_eq!(effect(&answer), "Deny");
        let context = &answer["context"];
        assert_eq!(context["decision"], "throttled");
        assert_eq!(context["reason"], "limit");
        assert_eq!(context["ruleId"], id.to_string());
        assert_eq!(context["limit"], "3");
        assert_eq!(context["remaining"], "0");
        // A third of the day, less what this story takes.
        let wait: u64 = context["retryAfter"].as_str().unwrap().parse().unwrap();
        assert!((28_000..=28_800).contains(&wait), "{wait}");
        assert!(context.as_object().unwrap().values().all(Value::is_string));
        assert_eq!(context.as_object().unwrap().len(), 13);
    }
}

#[tokio::test]
async fn who_is_not_known_is_told_by_the_one_error_that_makes_a_401() {
    let operator = operator().await;
    operator.client("mallory", json!({})).await;
    operator.key("mallory", "a-key-of-mallory").await;
    let terminated = json!({ "status": "terminated" });
    operator.replace_client("mallory", terminated).await;
    let container = authorizer(&operator).await;
    let mut bearer = call(None);
    bearer["headers"]["Authorization"] = format!("Bearer {KEY}").into();
    let mut query = call(None);
    query["queryStringParameters"] = json!({ "x-api-key": KEY });
    for event in [
        call(None),
        call(Some("no-such-key")),
        call(Some("")),
        call(Some("a-key-of-mallory")),
        bearer,
        query,
        json!({}),
    ] {
        assert_eq!(container.invoke(&event).await, Err(unauthorized()));
    }
    let answer = container.invoke(&http_call("no-such-key")).await;
    assert_eq!(answer, Ok(json!({ "isAuthorized": false })));
    assert!(container.invoke(&call(Some(KEY))).await.is_ok());
    // Nobody fills the log by being nobody.
    assert!(
        !container.logs().contains("Unauthorized"),
        "{}",
        container.logs()
    );
}

#[tokio::test]
async fn an_http_api_is_answered_yes_or_no() {
    let operator = operator().await;
    operator.rule(rule("/orders/*", 1)).await;
    let container = authorizer(&operator).await;
    let yes = container.invoke(&http_call(KEY)).await.unwrap();
    assert_eq!(yes["isAuthorized"], true);
    assert_eq!(yes["context"]["clientId"], "eve");
    let no = container.invoke(&http_call(KEY)).await.unwrap();
    assert_eq!(no["isAuthorized"], false);
    assert_eq!(no["context"]["decision"], "throttled");
}

#[tokio::test]
async fn a_change_holds_in_every_container_from_the_next_call_on() {
    let operator = operator().await;
    let second = operator.key("eve", "a-second-key").await;
    let id = operator.rule(rule("/orders/*", 1)).await;
    let (one, two) = (authorizer(&operator).await, authorizer(&operator).await);
    for key in [KEY, "a-second-key"] {
        for container in [&one, &two] {
            container.invoke(&call(Some(key))).await.unwrap();
        }
    }
    // One was spent; of two, one is left.
    operator.replace_rule(id, rule("/orders/*", 2)).await;
    denials::are_forgotten().await;
    let answer = two.invoke(&call(Some(KEY))).await.unwrap();
    assert_eq!(
        (effect(&answer), &answer["context"]["limit"]),
        ("Allow", &json!("2"))
    );
    let answer = one.invoke(&call(Some(KEY))).await.unwrap();
    assert_eq!(effect(&answer), "Deny");

    operator.delete_key("eve", second).await;
    denials::are_forgotten().await;
    for container in [&one, &two] {
        let answer = container.invoke(&call(Some("a-second-key"))).await;
        assert_eq!(answer, Err(unauthorized()));
        assert!(container.invoke(&call(Some(KEY))).await.is_ok());
    }
    operator
        .replace_client("eve", json!({ "status": "terminated" }))
        .await;
    denials::are_forgotten().await;
    for container in [&one, &two] {
        let answer = container.invoke(&call(Some(KEY))).await;
        assert_eq!(answer, Err(unauthorized()));
    }
    operator.replace_client("eve", json!({})).await;
    operator.key("eve", "a-third-key").await;
    for container in [&one, &two] {
        assert!(container.invoke(&call(Some("a-third-key"))).await.is_ok());
    }
}

#[tokio::test]
async fn without_a_key_the_address_counts_where_that_is_asked_for() {
    let operator = operator().await;
    operator.rule(rule("/orders/*", 1)).await;
    let by_address = [("IDENTITY", "api-key,ip")];
    let container = operator.container(Function::Authorizer, &by_address).await;
    for (address, wanted) in [
        ("192.0.2.1", "Allow"),
        ("192.0.2.1", "Deny"),
        ("192.0.2.2", "Allow"),
        ("2001:db8::1", "Allow"),
        ("2001:db8::ffff", "Deny"),
        ("2001:db8:0:1::1", "Allow"),
    ] {
        let answer = container.invoke(&from_address(address)).await.unwrap();
        assert_eq!(effect(&answer), wanted, "{address}");
        assert_eq!(answer["context"]["clientId"], "");
    }
    // A key that is there and wrong decides, address or not.
    let answer = container.invoke(&call(Some("no-such-key"))).await;
    assert_eq!(answer, Err(unauthorized()));
}

#[tokio::test]
async fn all_spellings_of_a_path_are_counted_together() {
    let operator = operator().await;
    let spellings = [
        "/shop/orders/7",
        "/orders/7",
        "//orders/./7/",
        "/orders;v=1/%37",
        "/%73hop/x/../orders%2F7",
    ];
    let limit = spellings.len() as u64;
    operator.rule(rule("GET /orders/7", limit)).await;
    let base = [("BASE_PATH", "/shop")];
    let container = operator.container(Function::Authorizer, &base).await;
    for spelling in spellings {
        let answer = container.invoke(&to_path(spelling)).await.unwrap();
        assert_eq!(answer["context"]["reason"], "rule", "{spelling}");
    }
    let answer = container.invoke(&to_path("/orders/7")).await.unwrap();
    assert_eq!(effect(&answer), "Deny");
    let answer = container.invoke(&to_path("/ORDERS/7")).await.unwrap();
    assert_eq!(answer["context"]["reason"], "default");
}

#[tokio::test]
async fn while_redis_is_out_nobody_is_called_wrong_and_each_rule_says_what_counts() {
    let mut redis = Redis::start().unwrap();
    let operator = Operator::at(&redis.url()).await;
    operator.client("eve", json!({})).await;
    operator.key("eve", KEY).await;
    let mut payments = rule("/payments", 9);
    payments["on_failure"] = "deny".into();
    operator.rule(payments).await;
    operator
        .rule(json!({ "resource": "/closed", "limit": 0, "time_window": 1 }))
        .await;
    let quick = [
        ("REDIS_TIMEOUT_MS", "100"),
        ("RULES_LOAD_TIMEOUT_MS", "100"),
    ];
    let warm = operator.container(Function::Authorizer, &quick).await;
    assert_eq!(
        effect(&warm.invoke(&to_path("/payments")).await.unwrap()),
        "Allow"
    );
    redis.stop(End::Kill);

    let answer = warm.invoke(&to_path("/payments")).await;
    assert_eq!(answer, Err(told("StoreUnavailable")));
    let answer = warm.invoke(&to_path("/orders")).await.unwrap();
    assert_eq!(
        (effect(&answer), &answer["context"]["degraded"]),
        ("Allow", &json!("1"))
    );
    let answer = warm.invoke(&to_path("/closed")).await.unwrap();
    assert_eq!(
        (effect(&answer), &answer["context"]["reason"]),
        ("Deny", &json!("blocked"))
    );
    // A key that this container has not seen cannot be judged: it may be good.
    let answer = warm.invoke(&call(Some("no-such-key"))).await;
    assert_eq!(answer, Err(told("StoreUnavailable")));
    let answer = warm.invoke(&http_call("no-such-key")).await;
    assert_eq!(answer, Err(told("StoreUnavailable")));
    assert_eq!(warm.invoke(&call(None)).await, Err(unauthorized()));

    let cold = operator.container(Function::Authorizer, &quick).await;
    cold.ready().await.unwrap();
    for event in [call(Some(KEY)), call(None), http_call(KEY)] {
        assert_eq!(cold.invoke(&event).await, Err(told("StoreUnavailable")));
    }
    // Back, and empty: an empty Redis is out too, and knows nobody to be unknown.
    redis.restart().unwrap();
    for key in [KEY, "no-such-key"] {
        let answer = cold.invoke(&call(Some(key))).await;
        assert_eq!(answer, Err(told("StoreUnavailable")));
    }
    operator.publish().await;
    for container in [&cold, &warm] {
        // When its pause is over.
        let end = Instant::now() + Duration::from_secs(15);
        let answer = loop {
            match container.invoke(&to_path("/payments")).await {
                Ok(answer) => break answer,
                Err(error) => assert_eq!(error, told("StoreUnavailable")),
            }
            assert!(Instant::now() < end, "{}", container.logs());
        };
        assert_eq!(
            (effect(&answer), &answer["context"]["degraded"]),
            ("Allow", &json!(""))
        );
    }
}

#[tokio::test]
async fn a_frozen_redis_costs_a_call_its_timeout_and_no_more() {
    let mut redis = Redis::start().unwrap();
    let operator = Operator::at(&redis.url()).await;
    operator.client("eve", json!({})).await;
    operator.key("eve", KEY).await;
    let quick = [
        ("REDIS_TIMEOUT_MS", "100"),
        ("RULES_LOAD_TIMEOUT_MS", "100"),
    ];
    let container = operator.container(Function::Authorizer, &quick).await;
    container.invoke(&call(Some(KEY))).await.unwrap();
    redis.pause();
    // Ten times the timeout, for a machine that is busy: without one the container would be killed here.
    let in_time = Duration::from_secs(1);
    for _ in 0..3 {
        let answer = container.invoke_within(&call(Some(KEY)), in_time).await;
        assert_eq!(answer.unwrap()["context"]["degraded"], "1");
    }
    redis.resume();
    // Asked again when the pause is over, and a late reply is nobody's answer.
    let end = Instant::now() + Duration::from_secs(15);
    let mut last = 100;
    for counted in 0..2 {
        let context = loop {
            let answer = container.invoke(&call(Some(KEY))).await.unwrap();
            if answer["context"]["degraded"] == "" {
                break answer["context"].clone();
            }
            assert!(Instant::now() < end && counted == 0, "{}", container.logs());
        };
        let left: i32 = context["remaining"].as_str().unwrap().parse().unwrap();
        // What was written into the frozen socket may have been executed when it woke.
        assert!(left < last && left >= 90, "{left} after {last}");
        last = left;
    }
}

#[tokio::test]
async fn an_environment_that_is_wrong_is_told_whole_before_anything_starts() {
    let wrong = [
        ("IDENTITY", "password"),
        ("DEFAULT_LIMIT", "many"),
        ("REDIS_TIMEOUT_MS", "-1"),
        ("KEY_PREFIX", "{x}"),
    ];
    let container = Container::start(Function::Authorizer, wrong).await;
    let error = container.ready().await.unwrap_err().error_message;
    let names = [
        "REDIS_URL",
        "IDENTITY",
        "DEFAULT_LIMIT",
        "REDIS_TIMEOUT_MS",
        "KEY_PREFIX",
    ];
    for name in names {
        assert!(error.contains(name), "no {name} in: {error}");
    }
}

#[tokio::test]
async fn no_key_is_ever_written_to_the_log() {
    let operator = operator().await;
    let key = SigningKey::es256("c");
    let server = KeyServer::start(Publication::Text(key_set(&[&key]))).await;
    let verbose = [
        ("RUST_LOG", "trace,lambda_runtime::layers=trace"),
        ("IDENTITY", "api-key,jwt"),
        ("JWT_JWKS_URL", server.address()),
        ("JWT_ISSUER", ISSUER),
        ("JWT_AUDIENCE", AUDIENCE),
    ];
    let container = operator.container(Function::Authorizer, &verbose).await;
    container.invoke(&call(Some(KEY))).await.unwrap();
    let _ = container.invoke(&call(Some("no-such-key"))).await;
    let (good, bad) = (key.token(&claims("eve")), "bad-token-of.a-stranger");
    let odd = key.sign(&json!({ "alg": "none", "kid": [bad] }), &claims("eve"));
    let ended = key.token(&json!({ "exp": 1, "iss": bad, "aud": bad, "sub": bad }));
    let stranger = SigningKey::es256(bad).token(&claims(bad));
    for token in [good.as_str(), bad, &odd, &ended, &stranger] {
        let mut event = call(None);
        event["headers"]["authorization"] = format!("Bearer {token}").into();
        let answer = container.invoke(&event).await;
        assert_eq!(answer.is_ok(), token == good, "{answer:?}");
    }
    container.logged("a token is refused").await;
    let logs = container.logs();
    assert!(!logs.is_empty());
    let signature = good.rsplit('.').next().unwrap();
    for secret in [KEY, "no-such-key", signature, bad, good.as_str()] {
        assert!(!logs.contains(secret), "{secret}");
    }
}

/// What may stand where an event has something else.
fn oddities() -> Vec<Value> {
    let mut deep = json!([]);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    vec![
        json!(null),
        json!(true),
        json!(-1e300),
        json!(""),
        json!("\u{0}\u{7f}ü\u{10ffff}\"\\/*?${aws:username}%zz%"),
        json!("x".repeat(20_000)),
        json!([]),
        json!([null, 7]),
        json!({ "": null, "version": "2.0" }),
        deep,
    ]
}

/// Every place in a value, as a JSON pointer.
fn places(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    let escaped = |name: &str| name.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                places(member, &format!("{at}/{}", escaped(name)), all);
            }
        }
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                places(item, &format!("{at}/{number}"), all);
            }
        }
        _ => {}
    }
}

fn without(event: &Value, place: &str) -> Option<Value> {
    let (parent, name) = place.rsplit_once('/')?;
    let mut event = event.clone();
    let name = name.replace("~1", "/").replace("~0", "~");
    event.pointer_mut(parent)?.as_object_mut()?.remove(&name)?;
    Some(event)
}

#[tokio::test]
async fn no_oddity_anywhere_in_an_event_makes_the_function_fail() {
    let operator = operator().await;
    let unlimited = json!({ "resource": "*", "limit": null, "time_window": 1 });
    operator.rule(unlimited).await;
    let key = SigningKey::es256("c");
    let keys = key_set(&[&key]);
    let everything = [
        ("IDENTITY", "jwt,api-key,ip"),
        ("JWT_JWKS", keys.as_str()),
        ("JWT_ISSUER", ISSUER),
        ("JWT_AUDIENCE", AUDIENCE),
        ("TRUSTED_PROXIES", "0.0.0.0/0,::/0"),
    ];
    let container = operator.container(Function::Authorizer, &everything).await;
    let mut bearing = call(None);
    let token = format!("Bearer {}", key.token(&claims("eve")));
    bearing["headers"]["Authorization"] = token.as_str().into();
    bearing["multiValueHeaders"]["Authorization"] = json!([token]);
    let mut asked = 0;
    for event in [call(Some(KEY)), http_call(KEY), bearing] {
        let mut all = Vec::new();
        places(&event, "", &mut all);
        for place in all {
            let odd = oddities().into_iter().map(|oddity| {
                let mut event = event.clone();
                *event.pointer_mut(&place).unwrap() = oddity;
                event
            });
            for event in odd.chain(without(&event, &place)) {
                let answer = container.invoke(&event).await;
                let fine = match &answer {
                    Ok(answer) => {
                        answer["isAuthorized"].is_boolean()
                            || ["Allow", "Deny"].contains(&effect(answer))
                    }
                    Err(error) => *error == unauthorized(),
                };
                assert!(fine, "{answer:?} to {event}");
                asked += 1;
            }
        }
    }
    assert!(asked > 500, "only {asked} events");
    assert!(container.is_alive());
}

#[tokio::test]
async fn no_header_that_a_caller_can_send_makes_the_function_fail() {
    let operator = operator().await;
    let container = authorizer(&operator).await;
    let mut headers = Map::new();
    let names = [
        "a b",
        "",
        "\u{7f}",
        "ü",
        "x-api-key ",
        "a\nb",
        "🦀",
        "%",
        "constructor",
    ];
    for (number, name) in names.into_iter().enumerate() {
        headers.insert(name.to_owned(), oddities()[number].clone());
    }
    let mut event = call(Some(KEY));
    let own = event["headers"].as_object_mut().unwrap();
    own.extend(headers.clone());
    let multiple = event["multiValueHeaders"].as_object_mut().unwrap();
    multiple.extend(headers);
    let answer = container.invoke(&event).await.unwrap();
    assert_eq!(effect(&answer), "Allow");

    // Half a surrogate pair: well-formed JSON, and no Unicode.
    let event = call(Some(KEY)).to_string();
    let odd = event.replacen("\"Accept\":", r#""X-\ud800": "\udfff", "Accept":"#, 2);
    assert_ne!(event, odd);
    let answer = container.invoke_text(&odd).await.unwrap();
    assert_eq!(effect(&answer), "Allow");
    let odd = event.replace(KEY, r"\ud800");
    assert_eq!(container.invoke_text(&odd).await, Err(unauthorized()));
}
