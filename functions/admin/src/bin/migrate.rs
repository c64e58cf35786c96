//! Wires the function that applies pending schema migrations.

use std::sync::Arc;

use lambda_runtime::{Error, run_concurrent, service_fn};
use limits::settings::Settings;
use limits_postgres::Database;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let environment = |name: &str| std::env::var(name).ok();
    aws::logs::start(environment("RUST_LOG").as_deref());
    let mut settings = Settings::new(&environment);
    let database = Database::from_settings(&mut settings);
    settings.finish()?;
    let database = Arc::new(database.ok_or("DATABASE_URL is missing")?);
    run_concurrent(service_fn(move |event| {
        let database = Arc::clone(&database);
        async move { admin::migrate::handle(&database, event).await }
    }))
    .await
}
