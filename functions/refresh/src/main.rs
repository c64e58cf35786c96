//! Wires the function: what is announced is published.

use aws::metrics::{self, Function};
use lambda_runtime::{Diagnostic, Error, LambdaEvent};
use limits::settings::Settings;
use limits_postgres::Database;
use refresh::Refresh;
use refresh::event::Wake;
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let environment = |name: &str| std::env::var(name).ok();
    aws::logs::start(environment("RUST_LOG").as_deref());
    let mut settings = Settings::new(&environment);
    metrics::start(&mut settings, Function::Refresh);
    let database = Database::from_settings(&mut settings);
    let store = limits_redis::Store::from_settings(&mut settings);
    settings.finish()?;
    let (Some(database), Some(store)) = (database, store) else {
        return Err("the settings could not be read".into());
    };
    let refresh = Refresh::new(database, store);
    aws::container::run(move |event: LambdaEvent<Value>| {
        let refresh = refresh.clone();
        async move {
            let wake = Wake::by(&event.payload);
            let report = refresh.restored(wake.restored).run(wake.announced).await?;
            tracing::info!(?report, "published");
            Ok::<_, Diagnostic>(report)
        }
    })
    .await
}
