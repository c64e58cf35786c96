//! Commands to one Redis, by hand: each on a connection of its own, so that it meets the server as it is now.

use std::time::Duration;

use local::servers::Redis;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisResult};
use tokio::time::{Instant, sleep};

/// How long a server has for one command.
const ANSWER: Duration = Duration::from_secs(5);

/// How long servers have to agree, on a slow and busy machine.
const AGREEMENT: Duration = Duration::from_secs(60);

/// Sends the command, its words parted by single spaces, and reads the answer.
pub async fn ask<T: FromRedisValue>(redis: &Redis, command: &str) -> RedisResult<T> {
    let mut words = command.split(' ');
    let mut asked = redis::cmd(words.next().unwrap_or_default());
    asked.arg(words.collect::<Vec<_>>());
    ask_exactly(redis, &asked).await
}

/// The same for words that may hold anything.
pub async fn ask_exactly<T: FromRedisValue>(redis: &Redis, command: &Cmd) -> RedisResult<T> {
    let settings = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(ANSWER))
        .set_response_timeout(Some(ANSWER));
    let client = Client::open(redis.plain_url())?;
    let connection = client.get_multiplexed_async_connection_with_config(&settings);
    command.query_async(&mut connection.await?).await
}

/// The value of one line `NAME:VALUE` of `INFO` or `CLUSTER INFO`.
pub fn line<'a>(text: &'a str, name: &str) -> &'a str {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let found = lines.find(|(known, _)| *known == name);
    found.map_or("", |(_, value)| value.trim())
}

/// Waits until `holds` tells something; `what` is said in the failure.
pub(crate) async fn wait_for<T>(what: &str, mut holds: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + AGREEMENT;
    loop {
        if let Some(found) = holds().await {
            return found;
        }
        assert!(Instant::now() < end, "still not: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}
