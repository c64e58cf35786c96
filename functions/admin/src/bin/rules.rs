//! Wires the function of the control API that has the rules.

use admin::State;
use lambda_http::{Error, run_concurrent, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let environment = |name: &str| std::env::var(name).ok();
    aws::logs::start(environment("RUST_LOG").as_deref());
    let router = admin::rules(State::from_environment(&environment).await?);
    run_concurrent(service_fn(move |request| {
        http_events::handle(router.clone(), request)
    }))
    .await
}
