//! Wires the function: what is announced is published.

use std::sync::Arc;

use aws::metrics::{self, Function};
use lambda_runtime::{Diagnostic, Error, LambdaEvent};
use limits::settings::Settings;
use limits_postgres::Database;
use refresh::Refresh;
use refresh::event::Wake;
use refresh::health::Examiner;
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let environment = |name: &str| std::env::var(name).ok();
    aws::logs::start(environment("RUST_LOG").as_deref());
    let mut settings = Settings::new(&environment);
    metrics::start(&mut settings, Function::Refresh);
    let database = Database::from_settings(&mut settings);
    let store = limits_redis::Store::from_settings(&mut settings);
    let examiner = Examiner::read(&mut settings);
    settings.finish()?;
    let (Some(database), Some(store), Some(examiner)) = (database, store, examiner) else {
        return Err("the settings could not be read".into());
    };
    let examiner = Arc::new(examiner);
    let refresh = Refresh::new(database, store);
    aws::container::run(move |event: LambdaEvent<Value>| {
        let (refresh, examiner) = (refresh.clone(), Arc::clone(&examiner));
        async move {
            let wake = Wake::by(&event.payload);
            let refresh = refresh.restored(wake.restored);
            let outcome = refresh.run(wake.announced).await;
            // Where it failed, how the stores are is asked all the more.
            if wake.scheduled {
                refresh.look(&examiner).await;
            }
            outcome
                .inspect(|report| tracing::info!(?report, "published"))
                .map_err(Diagnostic::from)
        }
    })
    .await
}
