//! The containers are what stories take them for: processes with a Lambda Runtime API and nothing else.

use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;
use tests::{Container, Function, stores};

const NOTHING: [(&str, &str); 0] = [];

async fn echo() -> Container {
    Container::start(Function::Echo, NOTHING).await
}

#[tokio::test]
async fn a_container_answers_one_event_after_the_other_in_one_process() {
    let container = echo().await;
    let first = container.invoke(&json!({ "n": 1 })).await.unwrap();
    let second = container.invoke(&json!({ "n": 2 })).await.unwrap();
    assert_eq!(first["echo"], json!({ "n": 1 }));
    assert_eq!(second["echo"], json!({ "n": 2 }));
    assert_eq!(first["pid"], second["pid"]);
}

#[tokio::test]
async fn several_containers_are_several_processes() {
    let containers = join_all([echo(), echo(), echo()]).await;
    let event = json!({});
    let answers = join_all(containers.iter().map(|each| each.invoke(&event))).await;
    let mut pids: Vec<_> = answers
        .into_iter()
        .map(|answer| answer.unwrap()["pid"].as_u64())
        .collect();
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), 3);
}

#[tokio::test]
async fn a_container_takes_one_event_at_a_time_unless_it_may_take_more() {
    let sleep = json!({ "sleep_ms": 300 });
    let one = echo().await;
    let start = Instant::now();
    join_all([one.invoke(&sleep), one.invoke(&sleep)]).await;
    assert!(start.elapsed() >= Duration::from_millis(600));

    let many = Container::start(Function::Echo, [("AWS_LAMBDA_MAX_CONCURRENCY", "2")]).await;
    many.ready().await.unwrap();
    // Both under way at once: the second ends although the first one never does.
    let endless = json!({ "sleep_ms": 600_000 });
    let (endless, short) = (many.invoke(&endless), many.invoke(&sleep));
    tokio::select! {
        _ = endless => panic!("it sleeps for ten minutes"),
        answer = short => assert!(answer.is_ok()),
    }
}

#[tokio::test]
async fn a_container_has_its_own_variables_and_no_others() {
    let container = Container::start(Function::Echo, [("REDIS_URL", "memory://")]).await;
    let variable = async |name: &str| {
        let event = json!({ "variable": name });
        container.invoke(&event).await.unwrap()["variable"].clone()
    };
    assert_eq!(variable("REDIS_URL").await, "memory://");
    assert_eq!(variable("AWS_LAMBDA_FUNCTION_NAME").await, "echo");
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert!(variable("CARGO_MANIFEST_DIR").await.is_null());
}

#[tokio::test]
async fn an_error_is_told_by_type_and_message_and_the_container_lives_on() {
    let container = echo().await;
    let event = json!({ "error": "so it is" });
    let error = container.invoke(&event).await.unwrap_err();
    assert_eq!(error.error_type, "Told");
    assert_eq!(error.error_message, "so it is");
    let event = json!({ "panic": "oh" });
    let error = container.invoke(&event).await.unwrap_err();
    assert!(error.error_message.contains("oh"), "{error}");
    assert!(container.invoke(&json!({})).await.is_ok());
}

#[tokio::test]
async fn what_a_function_prints_is_in_its_log() {
    let container = echo().await;
    let event = json!({ "log": "a line of its own" });
    container.invoke(&event).await.unwrap();
    container.logged("a line of its own").await;
}

#[tokio::test]
async fn a_frozen_container_runs_nothing_until_it_is_thawed() {
    let container = echo().await;
    container.ready().await.unwrap();
    container.freeze();
    let event = json!({ "log": "thawed" });
    let answer = container.invoke(&event);
    tokio::pin!(answer);
    let early = tokio::time::timeout(Duration::from_millis(200), &mut answer).await;
    assert!(early.is_err(), "a frozen container answered");
    assert!(container.is_alive() && container.logs().is_empty());
    container.thaw();
    assert!(answer.await.is_ok());
    container.logged("thawed").await;
}

#[tokio::test]
async fn a_container_over_time_is_killed() {
    let container = echo().await;
    container.ready().await.unwrap();
    let event = json!({ "sleep_ms": 600_000 });
    let error = container.invoke_within(&event, Duration::from_millis(100));
    assert_eq!(error.await.unwrap_err().error_type, "Sandbox.Timedout");
    assert!(!container.is_alive());
}

#[tokio::test]
async fn a_process_that_ends_is_a_runtime_exit() {
    let container = echo().await;
    let event = json!({ "exit": 3, "log": "the last words" });
    let error = container.invoke(&event).await.unwrap_err();
    assert_eq!(error.error_type, "Runtime.ExitError");
    assert!(error.error_message.contains("exit status: 3"), "{error}");
    assert!(error.error_message.contains("the last words"), "{error}");
}

#[tokio::test]
async fn a_function_that_refuses_to_start_says_why() {
    let container = Container::start(Function::Echo, [("REFUSE", "1")]).await;
    let error = container.ready().await.unwrap_err();
    assert!(error.error_message.contains("REFUSE is set"), "{error}");
    assert_eq!(container.invoke(&json!({})).await, Err(error));
}

#[tokio::test]
async fn every_story_has_a_migrated_database_of_its_own() {
    let (one, two) = (stores::database().await, stores::database().await);
    assert_ne!(one, two);
    for url in [one, two] {
        let container = Container::start(Function::Migrate, [("DATABASE_URL", url)]).await;
        let again = container.invoke(&json!({})).await.unwrap();
        assert_eq!(again, json!({ "applied": [] }));
    }
}
