//! Wires the function of the control API that has the rules.

use admin::State;
use aws::metrics::Function;
use lambda_runtime::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let environment = |name: &str| std::env::var(name).ok();
    aws::logs::start(environment("RUST_LOG").as_deref());
    http_events::serve(admin::rules(
        State::from_environment(Function::Rules, &environment).await?,
    ))
    .await
}
