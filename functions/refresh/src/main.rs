//! Wires the function: what is announced is published.

use lambda_runtime::{Error, LambdaEvent, service_fn};
use limits::settings::Settings;
use limits_postgres::Database;
use refresh::{Refresh, event};
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    tracing_subscriber::fmt().json().without_time().init();
    let lookup = |name: &str| std::env::var(name).ok();
    let mut settings = Settings::new(&lookup);
    let database = Database::from_settings(&mut settings);
    let store = limiter::config::store(&mut settings);
    settings.finish()?;
    let (Some(database), Some(store)) = (database, store) else {
        return Err("the settings could not be read".into());
    };
    let refresh = &Refresh::new(database, store);
    let handler = async |event: LambdaEvent<Value>| {
        let report = refresh.run(event::announced(&event.payload)).await?;
        tracing::info!(?report, "published");
        Ok::<_, Error>(serde_json::to_value(report)?)
    };
    lambda_runtime::run(service_fn(handler)).await
}
