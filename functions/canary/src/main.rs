//! Wires the function: a schedule wakes it, whatever its event says.

use std::sync::Arc;

use aws::metrics::{self, Function};
use canary::Canary;
use lambda_runtime::{Error, LambdaEvent};
use limits::settings::Settings;
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let environment = |name: &str| std::env::var(name).ok();
    aws::logs::start(environment("RUST_LOG").as_deref());
    let mut settings = Settings::new(&environment);
    metrics::start(&mut settings, Function::Canary);
    let canary = Canary::read(&mut settings);
    settings.finish()?;
    let canary = Arc::new(canary.ok_or("the settings could not be read")?);
    aws::container::run(move |_: LambdaEvent<Value>| {
        let canary = Arc::clone(&canary);
        async move { canary.run().await }
    })
    .await
}
