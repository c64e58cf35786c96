//! A handler that does nothing: it reads nothing of its event, and answers that every call passes.

use floor::Answer;
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use serde::de::IgnoredAny;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    run(service_fn(async |_: LambdaEvent<IgnoredAny>| {
        Ok::<_, Error>(Answer::new(true))
    }))
    .await
}
