//! The one choice between Redis and memory, and what either is asked on the request path.

use std::sync::Arc;

use limits::registry::Name;
use limits::settings::Settings;
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
    /// The store that `REDIS_URL`, `REDIS_AUTH` and `KEY_PREFIX` name. Makes no connection. None where a fault was noted, a missing
    /// `REDIS_URL` among them.
    pub fn from_settings(settings: &mut Settings<'_>) -> Option<Self> {
        let keys = Self::keys(settings);
        // The address is looked at whatever is wrong with the rest: all is told at once.
        let store = settings.required("REDIS_URL", |url| {
            Self::open(url, keys.clone().unwrap_or_default())
        });
        keys.and(store)
    }

    /// The same where a function does without one: none within where `REDIS_URL` is not set.
    pub fn from_settings_if_set(settings: &mut Settings<'_>) -> Option<Option<Self>> {
        let keys = Self::keys(settings);
        let store = settings.or("REDIS_URL", None, |url| {
            Self::open(url, keys.clone().unwrap_or_default()).map(Some)
        });
        keys.and(store)
    }

    fn keys(settings: &mut Settings<'_>) -> Option<Keys> {
        let auth = settings.or("REDIS_AUTH", (), |auth| match auth {
            "url" => Ok(()),
            "iam" => Err("must be url: iam is not supported".to_owned()),
            _ => Err("must be url".to_owned()),
        });
        let keys = settings.or("KEY_PREFIX", Keys::default(), Keys::new);
        auth.and(keys)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    fn told(variables: &[(&str, &str)]) -> String {
        let lookup = |name: &str| {
            let found = variables.iter().find(|(own, _)| *own == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let mut settings = Settings::new(&lookup);
        let store = Store::from_settings(&mut settings);
        let told = settings.finish().err().unwrap_or_default();
        assert_eq!(store.is_none(), !told.is_empty());
        told
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once_and_no_address_is_quoted() {
        assert_eq!(told(&[]), "REDIS_URL is missing");
        assert_eq!(
            told(&[("REDIS_URL", "memory://"), ("REDIS_AUTH", "url")]),
            ""
        );
        let wrong = told(&[
            ("REDIS_URL", "rediss+odd://:hunter2@host"),
            ("KEY_PREFIX", "a{b}"),
            ("REDIS_AUTH", "iam"),
        ]);
        for name in [
            "REDIS_URL must",
            "KEY_PREFIX must",
            "REDIS_AUTH must be url: iam",
        ] {
            assert!(wrong.contains(name), "{wrong}");
        }
        assert!(!wrong.contains("hunter2"));
        let missing = told(&[("KEY_PREFIX", "a{b}")]);
        assert!(missing.contains("REDIS_URL is missing"), "{missing}");
    }
}
