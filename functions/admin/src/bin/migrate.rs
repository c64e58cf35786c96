//! Wires the function that applies pending schema migrations.

use std::sync::Arc;

use aws::metrics::{self, Function};
use lambda_runtime::Error;
use limits::settings::Settings;
use limits_postgres::Database;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let environment = |name: &str| std::env::var(name).ok();
    aws::logs::start(environment("RUST_LOG").as_deref());
    let mut settings = Settings::new(&environment);
    metrics::start(&mut settings, Function::Migrate);
    let database = Database::from_settings(&mut settings);
    settings.finish()?;
    let database = Arc::new(database.ok_or("DATABASE_URL is missing")?);
    aws::container::run(move |event| {
        let database = Arc::clone(&database);
        async move { admin::migrate::handle(&database, event).await }
    })
    .await
}
