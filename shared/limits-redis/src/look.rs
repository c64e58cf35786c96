//! How the stores were when `refresh` last looked, which operators are shown.

use limits::moment::unix_us;
use redis::Value;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::keys::Place;
use crate::publish::PATIENCE;
use crate::store::{RedisStore, Store, StoreError};

/// How old a look may be, in seconds: one that is older says that nobody looks any more.
const KEPT_SECONDS: u64 = 24 * 60 * 60;

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
            primary: field("role")?.trim() == "master",
            replicas: number("connected_slaves").unwrap_or_default(),
            evicted: number("evicted_keys")?,
            used_memory: number("used_memory").unwrap_or_default(),
        })
    }
}

impl Look {
    /// How many keys were evicted since an earlier look that saw any server. One that was not seen then began since.
    pub fn evictions_since(&self, earlier: &Look) -> u64 {
        if earlier.servers.is_empty() {
            return 0;
        }
        let evicted = |look: &Look, run: &str| {
            let server = look.servers.iter().find(|server| server.run == run);
            server.map_or(0, |server| server.evicted)
        };
        let servers = self.servers.iter();
        servers
            .map(|server| server.evicted.saturating_sub(evicted(earlier, &server.run)))
            .sum()
    }
}

fn is_recent(look: &Look) -> bool {
    unix_us() / 1_000_000 < look.at + KEPT_SECONDS
}

impl Store {
    /// What each server that keeps anything of ours says of itself; in memory there is none.
    ///
    /// # Errors
    /// Where one does not answer within [`PATIENCE`].
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
        let deadline = Instant::now() + PATIENCE;
        let mut servers = Vec::new();
        for answer in self
            .servers
            .patient()
            .ask_each(&redis::cmd("INFO"), deadline)
            .await?
        {
            if let Value::BulkString(info) = answer {
                servers.extend(Server::read(&String::from_utf8_lossy(&info)));
            }
        }
        Ok(servers)
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

    const INFO: &str = "# Server\r\nrun_id:abc\r\n# Memory\r\nused_memory:12\r\nused_memory_human:12B\r\n# Stats\r\nevicted_keys:7\r\n# Replication\r\nrole:master\r\nconnected_slaves:2\r\n";

    #[test]
    fn a_server_is_read_and_what_tells_less_is_none() {
        let server = Server::read(INFO).unwrap();
        let expected = Server {
            run: "abc".to_owned(),
            primary: true,
            replicas: 2,
            evicted: 7,
            used_memory: 12,
        };
        assert_eq!(server, expected);
        assert_eq!(Server::read("# Server\r\nredis_version:7\r\n"), None);
    }

    #[test]
    fn evictions_are_counted_from_look_to_look_and_a_server_that_began_anew_from_its_beginning() {
        let look = |servers: &[(&str, u64)]| Look {
            servers: servers
                .iter()
                .map(|(run, evicted)| Server {
                    run: (*run).to_owned(),
                    evicted: *evicted,
                    ..Server::default()
                })
                .collect(),
            ..Look::default()
        };
        let earlier = look(&[("a", 5), ("b", 9)]);
        assert_eq!(look(&[("a", 8), ("c", 2)]).evictions_since(&earlier), 5);
        assert_eq!(look(&[("a", 5)]).evictions_since(&earlier), 0);
    }
}
