//! A handler that does nothing but ask Redis once, by the least script: whoever shows an API key has a bucket.

use floor::{Answer, Event, GCRA};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use redis::Script;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let client = redis::Client::open(std::env::var("REDIS_URL")?)?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    let script = Script::new(GCRA);
    let hash = script.prepare_invoke().load_async(&mut connection).await?;
    run(service_fn(async |event: LambdaEvent<Event>| {
        let fullness: i64 = redis::cmd("EVALSHA")
            .arg(&hash)
            .arg(1)
            .arg(event.payload.api_key())
            .arg(1)
            .arg(1_000_000_000)
            .query_async(&mut connection.clone())
            .await?;
        Ok::<_, Error>(Answer::new(fullness >= 0))
    }))
    .await
}
