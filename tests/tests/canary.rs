//! The canary: it says that limits hold where they do, and says otherwise whatever is wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use local::servers::{End, Redis};
use serde_json::{Value, json};
use tests::{Bridge, Container, Function, FunctionError, Operator, Region};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::migrations::{Bucket, deploy};

const KEY: &str = "AKIDEXAMPLE";
const PRINCIPAL: &str = "arn:aws:iam::123456789012:role/weir-canary";
/// As which a role asks.
const SESSION: &str = "arn:aws:sts::123456789012:assumed-role/weir-canary/weir-CanaryFunction";

/// The variables of a canary that asks at an address.
pub(crate) fn asking(url: &str) -> Vec<(String, String)> {
    [
        ("CHECK_URL", url),
        ("AWS_ACCESS_KEY_ID", KEY),
        ("AWS_SECRET_ACCESS_KEY", "secret-of-the-canary"),
        ("AWS_SESSION_TOKEN", "token-of-the-canary"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

/// Wakes a new canary that asks there. Gives what it says, and its log.
async fn wake(url: &str) -> (Result<Value, FunctionError>, String) {
    let canary = Container::start(Function::Canary, asking(url)).await;
    let event = include_str!("../../events/canary-schedule.json");
    let told = canary.invoke_text(event).await;
    canary.logged("CanaryLatency").await;
    (told, canary.logs())
}

/// Which of the two metrics that say whether limits hold the log tells.
fn counted(log: &str) -> Vec<&'static str> {
    let lines = log.lines().filter(|line| line.contains("\"_aws\""));
    let lines: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut names = vec!["CanarySucceeded", "CanaryFailed"];
    names.retain(|name| lines.iter().any(|line| line[name] == 1));
    assert!(lines.iter().any(|line| !line["CanaryLatency"].is_null()));
    names
}

/// What is wrong, by its error type and a part of its message; the log says what was expected.
async fn fails(url: &str, error_type: &str, message: &str) {
    let (told, log) = wake(url).await;
    let error = told.expect_err(&log);
    assert_eq!(counted(&log), ["CanaryFailed"], "{log}");
    assert_eq!(error.error_type, error_type, "{error}");
    assert!(error.error_message.contains(message), "{error}");
    let line = log.lines().find(|line| line.contains("limits do not hold"));
    let line: Value = serde_json::from_str(line.expect(&log)).unwrap();
    assert_eq!(line["level"], "ERROR");
    assert_eq!(line["error"], error.error_message);
    for wanted in ["first_wanted", "second_wanted"] {
        assert!(line[wanted].as_str().unwrap().len() > 10, "{line}");
    }
    assert!(!log.contains("of-the-canary"), "{log}");
}

/// A region in which the canary is registered as a deployment does it, and published.
async fn region() -> Region {
    let region = Region::new().await;
    let migrate = region.container(Function::Migrate).await;
    let bucket = Bucket::start(&[]).await;
    let request = deploy("Create", &bucket, json!({ "CanaryPrincipal": PRINCIPAL }));
    let told = migrate.invoke(&request).await.unwrap();
    assert_eq!(told["Status"], "SUCCESS", "{told}");
    publish(&region).await;
    region
}

async fn publish(region: &Region) {
    let event = include_str!("../../events/refresh-schedule.json");
    region.refresh.invoke_text(event).await.unwrap();
}

#[tokio::test]
async fn limits_hold_as_a_deployment_registers_the_canary_and_whatever_else_holds_for_everyone() {
    let region = region().await;
    let control = region.container(Function::Rules).await;
    // What the operators say of everybody else is not about the canary.
    for rule in [
        json!({"resource": "*", "limit": null, "time_window": 60}),
        json!({"resource": "*", "limit": 0, "time_window": 61}),
    ] {
        let event = tests::question::control("POST", "/ratelimit/rules", &[], rule);
        assert_eq!(control.invoke(&event).await.unwrap()["statusCode"], 201);
    }
    publish(&region).await;
    let check = region.container(Function::Check).await;
    let bridge = Bridge::function_url_of(check, KEY, SESSION).await;
    // Each run asks as somebody new.
    for _ in 0..2 {
        let (told, log) = wake(bridge.url()).await;
        let told = told.unwrap_or_else(|error| panic!("{error}\n{log}"));
        assert_eq!(told["first"], r#"200 "allowed", reason "rule", limit 1"#);
        let second = told["second"].as_str().unwrap();
        let start = r#"429 "blocked", reason "limit", limit 1, Retry-After 3"#;
        assert!(second.starts_with(start), "{second}");
        assert_eq!(counted(&log), ["CanarySucceeded"], "{log}");
        let line = log.lines().find(|line| line.contains("limits hold"));
        let line: Value = serde_json::from_str(line.expect(&log)).unwrap();
        assert_eq!(line["second"], second);
    }
    // Signed by somebody else's key.
    let check = region.container(Function::Check).await;
    let other = Bridge::function_url_of(check, "AKIDOTHER", SESSION).await;
    fails(other.url(), "WrongAnswer", "the first answer must be 200").await;
}

#[tokio::test]
async fn a_limit_that_is_not_there_or_does_not_hold_is_told() {
    let operator = Operator::new().await;
    let anyone = [("CHECK_ANONYMOUS", "allow")];
    let check = operator.container(Function::Check, &anyone).await;
    let bridge = Bridge::function_url(check).await;
    // The default limit is another.
    fails(bridge.url(), "WrongAnswer", "the first answer must be 200").await;
    let two = json!({"resource": "canary", "limit": 2, "time_window": 3600});
    let rule = operator.rule(two).await;
    fails(bridge.url(), "WrongAnswer", "limit 2").await;
    let blocked = json!({"resource": "canary", "limit": 0, "time_window": 3600});
    operator.replace_rule(rule, blocked).await;
    fails(bridge.url(), "WrongAnswer", "and was 429").await;
    let day = json!({"resource": "canary", "limit": 1, "time_window": 86_400});
    operator.replace_rule(rule, day).await;
    fails(bridge.url(), "WrongAnswer", "the second answer must be 429").await;
}

#[tokio::test]
async fn a_redis_that_is_dead_is_told_and_no_container_that_counts_for_itself_passes_for_a_limit() {
    let mut redis = Redis::start().unwrap();
    let operator = Operator::at(&redis.url()).await;
    let mut rule = json!({"resource": "canary", "limit": 1, "time_window": 3600});
    rule["on_failure"] = "deny".into();
    let id = operator.rule(rule.clone()).await;
    let anyone = [("CHECK_ANONYMOUS", "allow")];
    let check = operator.container(Function::Check, &anyone).await;
    let bridge = Bridge::function_url(check).await;
    let (told, log) = wake(bridge.url()).await;
    told.expect(&log);
    rule["on_failure"] = "limit".into();
    operator.replace_rule(id, rule).await;
    let (told, log) = wake(bridge.url()).await;
    told.expect(&log);
    redis.stop(End::Kill);
    // Counted by the container alone: the first is let through, and the second is stopped, and neither by the limit.
    fails(bridge.url(), "WrongAnswer", "").await;
}

#[tokio::test]
async fn a_check_that_is_gone_or_does_not_answer_is_told() {
    let operator = Operator::new().await;
    let check = operator.container(Function::Check, &[]).await;
    check.ready().await.unwrap();
    check.freeze();
    let bridge = Bridge::function_url(check).await;
    let url = bridge.url().to_owned();
    fails(
        &url,
        "NoAnswer",
        "the first question was not answered: no answer within 5 s",
    )
    .await;
    drop(bridge);
    fails(&url, "NoAnswer", "the first question was not answered").await;
}

/// A server that answers in turn, and then as the last time.
struct Impostor {
    url: String,
    server: JoinHandle<()>,
}

impl Impostor {
    async fn start(answers: Vec<(u16, Option<&'static str>, Value)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicUsize::new(0));
        let answers = Arc::new(answers);
        let app = Router::new().fallback(move |_: HeaderMap| {
            let number = asked.fetch_add(1, Ordering::SeqCst);
            let answers = Arc::clone(&answers);
            async move {
                let (status, retry_after, body) = &answers[number.min(answers.len() - 1)];
                let mut answer: Response = body.to_string().into_response();
                *answer.status_mut() = StatusCode::from_u16(*status).unwrap();
                if let Some(seconds) = retry_after {
                    let headers = answer.headers_mut();
                    headers.insert("retry-after", seconds.parse().unwrap());
                }
                answer
            }
        });
        let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, server }
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        self.server.abort();
    }
}

#[tokio::test]
async fn an_answer_that_is_not_honest_is_told() {
    let allowed = || json!({"status": "allowed", "reason": "rule", "limit": 1});
    let blocked = |retry_after: u64| json!({"status": "blocked", "reason": "limit", "limit": 1, "retry_after": retry_after});
    let first = (200, None, allowed());
    let good = (429, Some("3599"), blocked(3599));
    let impostor = Impostor::start(vec![first.clone(), good.clone()]).await;
    let (told, log) = wake(&impostor.url).await;
    told.expect(&log);
    for second in [
        first.clone(),
        (429, None, blocked(3599)),
        (429, Some("1"), blocked(3599)),
        (429, Some("3601"), blocked(3601)),
        (429, Some("0"), blocked(0)),
        (429, Some("3599"), json!({"retry_after": 3599})),
        (200, Some("3599"), blocked(3599)),
        (503, Some("1"), json!({})),
        (429, Some("3599"), json!("<html>")),
    ] {
        let impostor = Impostor::start(vec![first.clone(), second]).await;
        fails(
            &impostor.url,
            "WrongAnswer",
            "the second answer must be 429",
        )
        .await;
    }
    for first in [good, (302, None, json!({})), (200, None, json!([]))] {
        let impostor = Impostor::start(vec![first]).await;
        fails(&impostor.url, "WrongAnswer", "the first answer must be 200").await;
    }
}

#[tokio::test]
async fn a_canary_says_what_is_wrong_with_its_settings() {
    let canary = Container::start(
        Function::Canary,
        [
            ("CHECK_URL", "http://check.example/"),
            ("AWS_ACCESS_KEY_ID", KEY),
        ],
    )
    .await;
    let error = canary.ready().await.unwrap_err();
    for told in [
        "CHECK_URL must be an https:// address, or http:// of this machine",
        "AWS_SECRET_ACCESS_KEY is missing",
    ] {
        assert!(error.to_string().contains(told), "{error}");
    }
    assert!(!error.to_string().contains("check.example"), "{error}");
}
