//! Wires the function.

use std::sync::Arc;

use aws::metrics::{self, Function};
use check::{Check, router};
use lambda_runtime::Error;
use limits::settings::Settings;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let environment = |name: &str| std::env::var(name).ok();
    aws::logs::start(environment("RUST_LOG").as_deref());

    let mut settings = Settings::new(&environment);
    metrics::start(&mut settings, Function::Check);
    let check = Check::read(&mut settings);
    settings.finish()?;
    let check = Arc::new(check.ok_or("the environment cannot be read")?);
    check.load().await;

    http_events::serve(router(check)).await
}
