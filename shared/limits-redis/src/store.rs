//! The one choice between Redis and memory, and what either is asked on the request path.

use std::sync::Arc;

use limits::registry::Name;
use thiserror::Error;
use tokio::time::Instant;

use crate::connection::Node;
use crate::keys::Keys;
use crate::memory::Memory;
use crate::published::{self, Changes, Lookup};
use crate::take::{self, Call, Reply};

/// Why a store did not answer. Never a denial: that is an answer.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The deadline passed. Whether the call was executed is not known.
    #[error("no answer within the deadline")]
    Timeout,
    /// Redis refused, or the connection to it failed.
    #[error("redis: {0}")]
    Redis(#[from] redis::RedisError),
    /// A lane has no epoch: what it held is lost, or was never published.
    #[error("nothing is published in this lane")]
    LaneLost,
    /// An answer that no script of ours gives.
    #[error("malformed reply: {0}")]
    Malformed(&'static str),
}

/// Where counters and the published copy are kept. Cheap to clone; clones share everything.
#[derive(Debug, Clone)]
pub enum Store {
    /// In one Redis primary.
    Redis(Arc<RedisStore>),
    /// In this process.
    Memory(Arc<Memory>),
}

/// A Redis primary and the keys that are ours in it.
#[derive(Debug)]
pub struct RedisStore {
    pub(crate) node: Node,
    pub(crate) keys: Keys,
}

impl Store {
    /// The store at `REDIS_URL`, under `KEY_PREFIX`. Makes no connection.
    ///
    /// # Errors
    /// What is wrong with the address.
    pub fn open(url: &str, keys: Keys) -> Result<Self, String> {
        match url.split_once("://") {
            Some(("memory", "")) => Ok(Store::Memory(Arc::default())),
            Some(("redis", _)) => Ok(Store::Redis(Arc::new(RedisStore {
                node: Node::new(url)?,
                keys,
            }))),
            _ => Err("must begin with redis:// or be memory://".to_owned()),
        }
    }

    /// Whether there is no trip to save: everything is in this process.
    pub fn is_memory(&self) -> bool {
        matches!(self, Store::Memory(_))
    }

    /// Asks all buckets of a request, in one trip.
    ///
    /// # Errors
    /// Where there is no answer by `deadline`.
    pub async fn ask(&self, call: &Call<'_>, deadline: Instant) -> Result<Reply, StoreError> {
        match self {
            Store::Redis(redis) => take::ask(&redis.node, &redis.keys, call, deadline).await,
            Store::Memory(memory) => memory.ask(call),
        }
    }

    /// Looks a name up in the registry, in one trip.
    ///
    /// # Errors
    /// Where there is no answer by `deadline`; a name is only ever absent beside an epoch.
    pub async fn lookup(&self, name: &Name, deadline: Instant) -> Result<Lookup, StoreError> {
        match self {
            Store::Redis(redis) => {
                published::lookup(&redis.node, &redis.keys, name, deadline).await
            }
            Store::Memory(memory) => memory.lookup(name),
        }
    }

    /// What was published after the stamp `since`; 0 is a cold start. None where nothing is published.
    ///
    /// # Errors
    /// Where there is no answer by `deadline`.
    pub async fn changes(
        &self,
        since: u64,
        deadline: Instant,
    ) -> Result<Option<Changes>, StoreError> {
        match self {
            Store::Redis(redis) => {
                published::changes(&redis.node, &redis.keys, since, deadline).await
            }
            Store::Memory(memory) => Ok(memory.changes(since)),
        }
    }

    /// The bodies of chunks, in their order; none for one that is not there.
    ///
    /// # Errors
    /// Where there is no answer by `deadline`.
    pub async fn chunks(
        &self,
        chunks: &[u16],
        deadline: Instant,
    ) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        match self {
            Store::Redis(redis) => {
                published::chunks(&redis.node, &redis.keys, chunks, deadline).await
            }
            Store::Memory(memory) => Ok(memory.chunks(chunks)),
        }
    }
}
