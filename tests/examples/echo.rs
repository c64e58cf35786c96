//! A function that does what its event says.
#![expect(clippy::panic, reason = "an event may ask for a panic")]

use std::{process, time::Duration};

use aws::sns::{Topic, TopicArn};
use lambda_runtime::{Diagnostic, Error, LambdaEvent, run_concurrent, service_fn};
use local::servers::Redis;
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    if std::env::var_os("REFUSE").is_some() {
        return Err("REFUSE is set".into());
    }
    run_concurrent(service_fn(act)).await
}

async fn act(event: LambdaEvent<Value>) -> Result<Value, Diagnostic> {
    let event = event.payload;
    if let Some(text) = event["log"].as_str() {
        println!("{text}");
    }
    if let Some(milliseconds) = event["sleep_ms"].as_u64() {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }
    if let Some(code) = event["exit"].as_i64() {
        process::exit(code as i32);
    }
    if let Some(text) = event["panic"].as_str() {
        std::panic::panic_any(text.to_owned());
    }
    if let Some(text) = event["error"].as_str() {
        return Err(told(text.to_owned()));
    }
    if event["redis"] == true {
        let redis = Redis::start().map_err(|error| told(error.to_string()))?;
        let port = redis.port();
        // It lives as long as this process, and nobody drops it.
        std::mem::forget(redis);
        return Ok(json!({ "port": port }));
    }
    if let Some(message) = event["publish"].as_str() {
        publish(message).await.map_err(told)?;
    }
    let variable = event["variable"].as_str().map(std::env::var);
    Ok(json!({
        "echo": event,
        "pid": process::id(),
        "variable": variable.and_then(Result::ok),
    }))
}

async fn publish(message: &str) -> Result<(), String> {
    let arn = std::env::var("RULES_TOPIC_ARN").map_err(|error| error.to_string())?;
    let topic = Topic::new(arn.parse::<TopicArn>()?).await;
    topic
        .publish(message)
        .await
        .map_err(|error| error.to_string())
}

fn told(message: String) -> Diagnostic {
    Diagnostic {
        error_type: "Told".to_owned(),
        error_message: message,
    }
}
