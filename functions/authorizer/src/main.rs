//! Wires the function.

use std::sync::Arc;

use authorizer::Authorizer;
use lambda_runtime::{Diagnostic, Error, LambdaEvent, run_concurrent, service_fn};
use limits::settings::Settings;
use serde_json::value::RawValue;
use tracing_subscriber::EnvFilter;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let environment = |name: &str| std::env::var(name).ok();
    let filter = environment("RUST_LOG").and_then(|filter| EnvFilter::try_new(filter).ok());
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_env_filter(filter.unwrap_or_else(|| EnvFilter::new("info")))
        .init();

    let mut settings = Settings::new(&environment);
    let authorizer = Authorizer::read(&mut settings);
    settings.finish()?;
    let authorizer = Arc::new(authorizer.ok_or("the environment cannot be read")?);
    authorizer.load().await;

    run_concurrent(service_fn(move |event: LambdaEvent<Box<RawValue>>| {
        let authorizer = Arc::clone(&authorizer);
        async move {
            let answer = authorizer.answer(event.payload.get()).await;
            answer.map_err(Diagnostic::from)
        }
    }))
    .await
}
