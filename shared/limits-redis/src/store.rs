//! The one choice between Redis and memory, and what either is asked on the request path.

use std::sync::Arc;

use aws::elasticache_token::{CacheName, ElastiCacheToken};
use aws::metrics::{STORE_FAILURES, StoreFailure};
use aws::signer::{Signer, by_role};
use limits::registry::Name;
use limits::settings::Settings;
use thiserror::Error;
use tokio::time::Instant;

use crate::address::Target;
use crate::fault::Fault;
use crate::keys::Keys;
use crate::memory::Memory;
use crate::published::{self, Changes, Lookup};
use crate::take::{Call, Reply};
use crate::topology::Topology;

/// Why a store did not answer. Never a denial: that is an answer.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The deadline passed. Whether the call was executed is not known.
    #[error("no answer within the deadline")]
    Timeout,
    /// Redis refused, or the connection to it failed.
    #[error("redis: {0}")]
    Redis(#[from] redis::RedisError),
    /// Redis did not answer a moment ago, and is left alone: nothing was sent.
    #[error("left alone after a failure")]
    Paused,
    /// No server is known that keeps this: none that was asked could say.
    #[error("no server is known that keeps it")]
    Unserved,
    /// Servers sent the call from one to the other, and none executed it.
    #[error("sent on too often")]
    Astray,
    /// The server is part of a cluster, and keeps only some of the slots.
    #[error(
        "the server is part of a cluster: REDIS_URL must begin with redis+cluster:// or rediss+cluster://"
    )]
    IsCluster,
    /// A lane has no epoch: what it held is lost, or was never published.
    #[error("nothing is published in this lane")]
    LaneLost,
    /// An answer that no script of ours gives.
    #[error("malformed reply: {0}")]
    Malformed(&'static str),
}

impl StoreError {
    /// What Redis means by its error, if it is one.
    pub(crate) fn fault(&self) -> Option<Fault> {
        match self {
            StoreError::Redis(error) => Some(Fault::of(error)),
            _ => None,
        }
    }

    /// Whether the store tells of it by itself, when it begins: a server does not answer, and is left alone.
    pub fn is_told(&self) -> bool {
        match self {
            StoreError::Timeout | StoreError::Paused => true,
            error => matches!(
                error.fault(),
                Some(Fault::Demoted | Fault::Unready | Fault::Lost)
            ),
        }
    }

    /// What it is counted as; none where whoever asked knows another way.
    pub(crate) fn failure(&self) -> Option<StoreFailure> {
        Some(match self {
            StoreError::Timeout => StoreFailure::Timeout,
            StoreError::Paused => StoreFailure::Paused,
            StoreError::Unserved => StoreFailure::Unserved,
            StoreError::Astray => StoreFailure::Astray,
            StoreError::IsCluster => StoreFailure::Refused,
            StoreError::LaneLost => StoreFailure::Missing,
            StoreError::Malformed(_) => StoreFailure::Malformed,
            StoreError::Redis(error) => match Fault::of(error) {
                Fault::NoScript | Fault::TryAgain => return None,
                Fault::Moved(_) | Fault::Ask(_) => StoreFailure::Astray,
                Fault::Demoted => StoreFailure::Demoted,
                Fault::Unready => StoreFailure::Unready,
                Fault::Refused => StoreFailure::Refused,
                Fault::Lost => StoreFailure::Lost,
            },
        })
    }

    /// Whether the keys of a call are parted between two servers: each by itself is found.
    pub(crate) fn is_parted(&self) -> bool {
        self.fault() == Some(Fault::TryAgain)
    }
}

/// Where counters and the published copy are kept. Cheap to clone; clones share everything.
#[derive(Debug, Clone)]
pub enum Store {
    /// In Redis.
    Redis(Arc<RedisStore>),
    /// In this process.
    Memory(Arc<Memory>),
}

/// Redis servers and the keys that are ours in them.
#[derive(Debug)]
pub struct RedisStore {
    pub(crate) servers: Topology,
    pub(crate) keys: Keys,
}

/// Counts an answer that tells nothing. Where servers gave none, [`Topology::ask`] has counted that.
fn noted<T>(answer: Result<T, StoreError>) -> Result<T, StoreError> {
    if let Err(error @ (StoreError::LaneLost | StoreError::Malformed(_))) = &answer
        && let Some(kind) = error.failure()
    {
        STORE_FAILURES.add(kind);
    }
    answer
}

/// By whose role one logs in, and to which cache.
type Role = (CacheName, Signer);

/// The role where `REDIS_AUTH` says so; none within where the URL says all. None where a fault was noted.
fn role(settings: &mut Settings<'_>) -> Option<Option<Role>> {
    if !by_role(settings, "REDIS_AUTH")? {
        return Some(None);
    }
    let cache = settings.required("REDIS_CACHE_NAME", str::parse);
    let signer = Signer::from_settings(settings);
    Some(Some((cache?, signer?)))
}

/// What makes a password for each connection.
fn token(target: &Target, (cache, signer): Role) -> Result<ElastiCacheToken, String> {
    let user = target.login.username().unwrap_or_default();
    if !target.tls || user.is_empty() || target.login.password().is_some() {
        return Err(
            "must with REDIS_AUTH=iam ask for TLS and name a user without a password: rediss://USER@host or rediss+cluster://USER@host"
                .to_owned(),
        );
    }
    Ok(ElastiCacheToken::new(cache, user, signer))
}

impl Store {
    /// The store that `REDIS_URL`, `REDIS_AUTH`, `REDIS_CACHE_NAME` and `KEY_PREFIX` name. Makes no connection. None where a fault
    /// was noted, a missing `REDIS_URL` among them.
    pub fn from_settings(settings: &mut Settings<'_>) -> Option<Self> {
        // The address is looked at whatever is wrong with the rest: all is told at once.
        let (keys, role) = (Self::keys(settings), role(settings));
        let store = settings.required("REDIS_URL", |url| {
            Self::open_as(
                url,
                keys.clone().unwrap_or_default(),
                role.clone().flatten(),
            )
        });
        keys.and(role).and(store)
    }

    /// The same where a function does without one: none within where `REDIS_URL` is not set.
    pub fn from_settings_if_set(settings: &mut Settings<'_>) -> Option<Option<Self>> {
        let (keys, role) = (Self::keys(settings), role(settings));
        let store = settings.or("REDIS_URL", None, |url| {
            let keys = keys.clone().unwrap_or_default();
            Self::open_as(url, keys, role.clone().flatten()).map(Some)
        });
        keys.and(role).and(store)
    }

    fn keys(settings: &mut Settings<'_>) -> Option<Keys> {
        settings.or("KEY_PREFIX", Keys::default(), Keys::new)
    }

    /// The store at `REDIS_URL`, under `KEY_PREFIX`. Makes no connection.
    ///
    /// # Errors
    /// What is wrong with the address.
    pub fn open(url: &str, keys: Keys) -> Result<Self, String> {
        Self::open_as(url, keys, None)
    }

    fn open_as(url: &str, keys: Keys, role: Option<Role>) -> Result<Self, String> {
        if url == "memory://" {
            return Ok(Store::Memory(Arc::default()));
        }
        let target = Target::parse(url)?;
        let token = role.map(|role| token(&target, role)).transpose()?;
        let servers = Topology::new(&target, token)?;
        Ok(Store::Redis(Arc::new(RedisStore { servers, keys })))
    }

    /// Whether there is no trip to save: everything is in this process.
    pub fn is_memory(&self) -> bool {
        matches!(self, Store::Memory(_))
    }

    /// Asks all buckets of a request: in one trip, or in a cluster in one more than there are lanes.
    ///
    /// # Errors
    /// Where there is no answer by `deadline`.
    pub async fn ask(&self, call: &Call<'_>, deadline: Instant) -> Result<Reply, StoreError> {
        noted(match self {
            Store::Redis(redis) => redis.ask(call, deadline).await,
            Store::Memory(memory) => memory.ask(call),
        })
    }

    /// Looks a name up in the registry, in one trip.
    ///
    /// # Errors
    /// Where there is no answer by `deadline`; a name is only ever absent beside an epoch.
    pub async fn lookup(&self, name: &Name, deadline: Instant) -> Result<Lookup, StoreError> {
        noted(match self {
            Store::Redis(redis) => {
                published::lookup(&redis.servers, &redis.keys, name, deadline).await
            }
            Store::Memory(memory) => memory.lookup(name),
        })
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
        noted(match self {
            Store::Redis(redis) => {
                published::changes(&redis.servers, &redis.keys, since, deadline).await
            }
            Store::Memory(memory) => Ok(memory.changes(since)),
        })
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
        noted(match self {
            Store::Redis(redis) => {
                published::chunks(&redis.servers, &redis.keys, chunks, deadline).await
            }
            Store::Memory(memory) => Ok(memory.chunks(chunks)),
        })
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
            ("REDIS_CACHE_NAME", "Weir"),
        ]);
        for name in [
            "REDIS_URL must",
            "KEY_PREFIX must",
            "REDIS_CACHE_NAME must",
            "AWS_ACCESS_KEY_ID is missing",
            "AWS_REGION is missing",
        ] {
            assert!(wrong.contains(name), "{wrong}");
        }
        assert!(!wrong.contains("hunter2"));
        assert_eq!(
            told(&[("REDIS_URL", "memory://"), ("REDIS_AUTH", "both")]),
            "REDIS_AUTH must be url or iam"
        );
        let missing = told(&[("KEY_PREFIX", "a{b}")]);
        assert!(missing.contains("REDIS_URL is missing"), "{missing}");
    }

    #[test]
    fn by_role_one_logs_in_over_tls_and_as_a_user() {
        let with = |url| {
            told(&[
                ("REDIS_URL", url),
                ("REDIS_AUTH", "iam"),
                ("REDIS_CACHE_NAME", "serverless:weir"),
                ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
                ("AWS_SECRET_ACCESS_KEY", "secret"),
                ("AWS_REGION", "eu-west-1"),
            ])
        };
        assert_eq!(with("rediss+cluster://weir@cache.example:6379"), "");
        for url in [
            "redis://weir@cache.example",
            "rediss://cache.example",
            "rediss://weir:hunter2@cache.example",
        ] {
            let told = with(url);
            assert!(
                told.starts_with("REDIS_URL must with REDIS_AUTH=iam") && !told.contains("hunter2"),
                "{told}"
            );
        }
    }
}
