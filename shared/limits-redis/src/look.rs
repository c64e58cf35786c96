//! How the stores were when `refresh` last looked, which operators are shown.

use std::time::Duration;

use limits::moment::unix_us;
use redis::Value;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::keys::Place;
use crate::publish::PATIENCE;
use crate::store::{RedisStore, Store, StoreError};

/// How old a look may be, in seconds: one that is older says that nobody looks any more.
const KEPT_SECONDS: u64 = 24 * 60 * 60;

/// How long a server may take to say how it is: one that hangs keeps nobody from hearing the others.
const INFO_PATIENCE: Duration = Duration::from_secs(1);

/// What was seen in one look.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Look {
    /// When, in seconds since 1970.
    pub at: u64,
    /// What AWS said of the cache; none where it was not asked, or did not answer.
    pub cache: Option<Seen>,
    /// What AWS said of the database, likewise.
    pub database: Option<Seen>,
    /// When the last failover of the cache was over that anybody saw, in seconds since 1970.
    pub cache_failover: Option<i64>,
    /// The same of the database.
    pub database_failover: Option<i64>,
    /// How far a replica was behind, in milliseconds; none of a primary.
    pub replica_lag_ms: Option<u64>,
    /// What each Redis server that keeps anything of ours said of itself; empty where they do not.
    pub servers: Vec<Server>,
}

/// What AWS said of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Seen {
    /// In AWS's word.
    pub status: String,
    /// Whether it serves.
    pub healthy: bool,
    /// Nodes that do not.
    pub unavailable: u64,
}

/// What a Redis server said of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Server {
    /// What it is known by until it ends.
    pub run: String,
    /// For how long it has run, in seconds.
    pub up_seconds: u64,
    /// Whether it is a primary.
    pub primary: bool,
    /// How many replicas are connected to it.
    pub replicas: u64,
    /// How many keys it has evicted since it began.
    pub evicted: u64,
    /// How much memory it uses, in bytes.
    pub used_memory: u64,
}

impl Server {
    /// Reads what `INFO` answers; none where that is something else.
    fn read(info: &str) -> Option<Self> {
        let field = |name: &str| {
            let mut lines = info.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        };
        let number = |name: &str| field(name).and_then(|text| text.trim().parse().ok());
        Some(Self {
            run: field("run_id")?.trim().to_owned(),
            up_seconds: number("uptime_in_seconds")?,
            primary: field("role")?.trim() == "master",
            replicas: number("connected_slaves").unwrap_or_default(),
            evicted: number("evicted_keys")?,
            used_memory: number("used_memory").unwrap_or_default(),
        })
    }
}

impl Look {
    /// How many keys were evicted since an earlier look. Of a server that ran then and was not seen, nobody knows how many of its
    /// evictions are older, and none counts.
    pub fn evictions_since(&self, earlier: &Look) -> u64 {
        let before = |server: &Server| {
            let mut seen = earlier.servers.iter();
            match seen.find(|other| other.run == server.run) {
                Some(other) => other.evicted,
                None if self.at.saturating_sub(server.up_seconds) > earlier.at => 0,
                None => server.evicted,
            }
        };
        let servers = self.servers.iter();
        servers
            .map(|server| server.evicted.saturating_sub(before(server)))
            .sum()
    }
}

fn is_recent(look: &Look) -> bool {
    look.at.abs_diff(unix_us() / 1_000_000) < KEPT_SECONDS
}

impl Store {
    /// What each server that keeps anything of ours says of itself within a second; in memory there is none.
    ///
    /// # Errors
    /// Where it is not known by then which servers there are.
    pub async fn servers(&self) -> Result<Vec<Server>, StoreError> {
        match self {
            Store::Redis(redis) => redis.servers().await,
            Store::Memory(_) => Ok(Vec::new()),
        }
    }

    /// Notes a look, in place of the last. In memory nobody looks.
    ///
    /// # Errors
    /// Where there is no answer within [`PATIENCE`].
    pub async fn note_look(&self, look: &Look) -> Result<(), StoreError> {
        match self {
            Store::Redis(redis) => redis.note_look(look).await,
            Store::Memory(_) => Ok(()),
        }
    }

    /// The last look; none where nobody has looked, or something else stands in its place.
    ///
    /// # Errors
    /// Where there is no answer within [`PATIENCE`].
    pub async fn last_look(&self) -> Result<Option<Look>, StoreError> {
        match self {
            Store::Redis(redis) => redis.last_look().await,
            Store::Memory(_) => Ok(None),
        }
    }
}

impl RedisStore {
    async fn servers(&self) -> Result<Vec<Server>, StoreError> {
        let deadline = Instant::now() + INFO_PATIENCE;
        let answers = self.servers.ask_each(&redis::cmd("INFO"), deadline).await?;
        let said = answers.iter().filter_map(|answer| match answer {
            Value::BulkString(info) => Server::read(&String::from_utf8_lossy(info)),
            _ => None,
        });
        Ok(said.collect())
    }

    async fn note_look(&self, look: &Look) -> Result<(), StoreError> {
        let json = serde_json::to_string(look)
            .map_err(|_| StoreError::Malformed("a look that is no JSON"))?;
        let mut command = redis::cmd("SET");
        // It does not expire, since what expires is what Redis may evict, and evictions are counted from this.
        command.arg(self.keys.look()).arg(json);
        let deadline = Instant::now() + PATIENCE;
        let servers = self.servers.patient();
        servers
            .ask(Place::Rules, &command, deadline)
            .await
            .map(drop)
    }

    async fn last_look(&self) -> Result<Option<Look>, StoreError> {
        let mut command = redis::cmd("GET");
        command.arg(self.keys.look());
        let deadline = Instant::now() + PATIENCE;
        let servers = self.servers.patient();
        Ok(match servers.ask(Place::Rules, &command, deadline).await? {
            Value::BulkString(json) => serde_json::from_slice(&json).ok().filter(is_recent),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Server\r\nrun_id:abc\r\nuptime_in_seconds:90\r\n# Memory\r\nused_memory:12\r\nused_memory_human:12B\r\n# Stats\r\nevicted_keys:7\r\n# Replication\r\nrole:master\r\nconnected_slaves:2\r\n";

    #[test]
    fn a_server_is_read_and_what_tells_less_is_none() {
        let server = Server::read(INFO).unwrap();
        let expected = Server {
            run: "abc".to_owned(),
            up_seconds: 90,
            primary: true,
            replicas: 2,
            evicted: 7,
            used_memory: 12,
        };
        assert_eq!(server, expected);
        assert_eq!(Server::read("# Server\r\nredis_version:7\r\n"), None);
    }

    #[test]
    fn evictions_are_counted_from_look_to_look_and_of_a_server_that_was_not_seen_only_if_it_began_since()
     {
        let look = |at: u64, servers: &[(&str, u64, u64)]| Look {
            at,
            servers: servers
                .iter()
                .map(|(run, up_seconds, evicted)| Server {
                    run: (*run).to_owned(),
                    up_seconds: *up_seconds,
                    evicted: *evicted,
                    ..Server::default()
                })
                .collect(),
            ..Look::default()
        };
        let earlier = look(1_000, &[("a", 500, 5), ("b", 500, 9)]);
        let counted = |servers: &[_]| look(1_060, servers).evictions_since(&earlier);
        assert_eq!(counted(&[("a", 560, 8), ("new", 50, 2)]), 5);
        assert_eq!(counted(&[("a", 560, 8), ("unseen", 560, 2)]), 3);
        assert_eq!(counted(&[("a", 560, 5)]), 0);
    }
}
