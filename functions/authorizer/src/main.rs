//! Wires the function.

use std::sync::Arc;

use authorizer::{Authorizer, Event};
use aws::metrics::{self, Function};
use lambda_runtime::{Diagnostic, Error, LambdaEvent};
use limits::settings::Settings;

/// The runtime logs each error that is answered, and here an error is how a caller is told 401: anyone could fill the log. Of a
/// panic, standard error tells. Nor does it note the id of each call, which costs more than to deny one and which no line needs.
const QUIET: &str = "info,lambda_runtime::layers=off";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let environment = |name: &str| std::env::var(name).ok();
    let filter = environment("RUST_LOG");
    aws::logs::start(Some(filter.as_deref().unwrap_or(QUIET)));

    let mut settings = Settings::new(&environment);
    metrics::start(&mut settings, Function::Authorizer);
    let authorizer = Authorizer::read(&mut settings);
    settings.finish()?;
    let authorizer = Arc::new(authorizer.ok_or("the environment cannot be read")?);
    authorizer.load().await;

    aws::container::run(move |event: LambdaEvent<Event>| {
        let authorizer = Arc::clone(&authorizer);
        async move {
            let answer = authorizer.answer(event.payload).await;
            answer.map_err(Diagnostic::from)
        }
    })
    .await
}
