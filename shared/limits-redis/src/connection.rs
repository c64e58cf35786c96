//! The connection to Redis: opened when first needed, dropped when it can no longer be trusted.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, Pipeline, RedisError, ServerErrorKind, Value,
};
use tokio::time::{Instant, timeout_at};

use crate::store::StoreError;

/// One Redis node.
#[derive(Debug)]
pub struct Node {
    client: Client,
    open: Mutex<Option<MultiplexedConnection>>,
}

impl Node {
    /// The node at a `redis://` address. No connection is made yet.
    ///
    /// # Errors
    /// What is wrong with the address; the address itself, which may hold a password, is not told.
    pub fn new(url: &str) -> Result<Self, String> {
        let client = Client::open(url)
            .map_err(|_| "must be an address like redis://host:6379".to_owned())?;
        Ok(Self {
            client,
            open: Mutex::new(None),
        })
    }

    fn open(&self) -> std::sync::MutexGuard<'_, Option<MultiplexedConnection>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connection(&self) -> Result<MultiplexedConnection, RedisError> {
        if let Some(connection) = self.open().clone() {
            return Ok(connection);
        }
        // Every wait has the caller's deadline around it; the client library's own would only hide which one struck.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None);
        let connection = self
            .client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        *self.open() = Some(connection.clone());
        Ok(connection)
    }

    /// Sends what `send` sends, within the deadline. A connection that failed or kept us waiting is dropped, so that no late
    /// reply can answer a later call.
    async fn conversation<T>(
        &self,
        deadline: Instant,
        send: impl AsyncFnOnce(&mut MultiplexedConnection) -> Result<T, RedisError>,
    ) -> Result<T, StoreError> {
        let reply = timeout_at(deadline, async {
            let mut connection = self.connection().await?;
            send(&mut connection).await
        });
        match reply.await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => {
                if distrusted(&error) {
                    *self.open() = None;
                }
                Err(StoreError::Redis(error))
            }
            Err(_) => {
                *self.open() = None;
                Err(StoreError::Timeout)
            }
        }
    }

    /// One command.
    pub(crate) async fn command(
        &self,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<Value, StoreError> {
        self.conversation(deadline, async |connection| {
            let reply = connection.send_packed_command(command).await?;
            // What Redis answers as an error comes as a value here.
            reply.extract_error()
        })
        .await
    }

    /// Several commands in one trip; the first error is the answer.
    pub(crate) async fn pipeline(
        &self,
        pipeline: &Pipeline,
        deadline: Instant,
    ) -> Result<Vec<Value>, StoreError> {
        self.conversation(deadline, async |connection| {
            pipeline.query_async(connection).await
        })
        .await
    }

    /// A script by its hash, and once by its text where the node does not have it: that call was not executed, so nothing is
    /// charged twice.
    pub(crate) async fn script(
        &self,
        script: &Script,
        keys: &[String],
        arguments: &[impl redis::ToRedisArgs],
        deadline: Instant,
    ) -> Result<Value, StoreError> {
        let reply = self
            .command(
                &script.call("EVALSHA", &script.hash, keys, arguments),
                deadline,
            )
            .await;
        match reply {
            Err(StoreError::Redis(error)) if is_no_script(&error) => {
                self.command(
                    &script.call("EVAL", &script.text, keys, arguments),
                    deadline,
                )
                .await
            }
            reply => reply,
        }
    }
}

fn is_no_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// After which errors the connection is not used again: it is gone, or its node may no longer decide.
fn distrusted(error: &RedisError) -> bool {
    match error.kind() {
        ErrorKind::Server(kind) => matches!(
            kind,
            ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown | ServerErrorKind::BusyLoading
        ),
        _ => true,
    }
}

/// A script and its hash.
#[derive(Debug)]
pub(crate) struct Script {
    text: String,
    hash: String,
}

impl Script {
    pub(crate) fn new(text: String) -> Self {
        let hash = redis::Script::new(&text).get_hash().to_owned();
        Self { text, hash }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The call by hash, for a node that is known to have the script.
    pub(crate) fn call_by_hash(
        &self,
        keys: &[String],
        arguments: &[impl redis::ToRedisArgs],
    ) -> Cmd {
        self.call("EVALSHA", &self.hash, keys, arguments)
    }

    fn call(
        &self,
        command: &str,
        script: &str,
        keys: &[String],
        arguments: &[impl redis::ToRedisArgs],
    ) -> Cmd {
        let mut call = redis::cmd(command);
        call.arg(script).arg(keys.len()).arg(keys).arg(arguments);
        call
    }
}

/// How long `refresh` and the like wait for one answer: they hold up nobody, and a large page may take its time.
pub const PATIENCE: Duration = Duration::from_secs(5);
