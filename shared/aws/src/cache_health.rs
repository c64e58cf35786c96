//! How ElastiCache says that a cache is.

use aws_sdk_elasticache::Client;
use aws_sdk_elasticache::error::DisplayErrorContext;
use aws_sdk_elasticache::types::SourceType;
use tokio::sync::OnceCell;

use crate::elasticache_token::CacheName;
use crate::health::{DEADLINE, Health, HealthError, LOOK_BACK_MINUTES, in_time, tells_of_failover};
use crate::sdk;

/// In which of its states a cache, or a part of it, serves.
const SERVING: [&str; 3] = ["available", "modifying", "snapshotting"];

/// A cache, and a client that asks about it.
#[derive(Debug)]
pub struct CacheHealth {
    client: OnceCell<Client>,
    cache: CacheName,
}

impl CacheHealth {
    /// Speaks to nobody yet, and makes the client when it is first asked; the SDK reads its own settings (credentials, region,
    /// `AWS_ENDPOINT_URL_ELASTICACHE`) from the environment.
    pub fn new(cache: CacheName) -> Self {
        let client = OnceCell::new();
        Self { client, cache }
    }

    async fn client(&self) -> &Client {
        let made = async || Client::new(&sdk::config(None, DEADLINE).await);
        self.client.get_or_init(made).await
    }

    /// Asks how it is. The role needs `elasticache:DescribeReplicationGroups`, or `elasticache:DescribeServerlessCaches`, and
    /// `elasticache:DescribeEvents`.
    ///
    /// # Errors
    /// Within [`DEADLINE`], whatever the network does.
    pub async fn ask(&self) -> Result<Health, HealthError> {
        let described = async {
            match self.cache.is_serverless() {
                true => self.serverless().await,
                false => self.group().await,
            }
        };
        in_time(async {
            let (health, failovers) = tokio::try_join!(described, self.failovers())?;
            Ok(Health {
                failovers,
                ..health
            })
        })
        .await
    }

    async fn group(&self) -> Result<Health, HealthError> {
        let groups = self.client().await.describe_replication_groups();
        let groups = groups.replication_group_id(self.cache.name()).send().await;
        let groups = groups.map_err(failed)?;
        let group = groups.replication_groups().first().ok_or_else(none)?;
        let mut health = health(group.status());
        for part in group.node_groups() {
            health.nodes += part.node_group_members().len() as u64;
            if !serves(part.status().unwrap_or_default()) {
                health.healthy = false;
                health.unavailable += part.node_group_members().len() as u64;
            }
        }
        Ok(health)
    }

    async fn serverless(&self) -> Result<Health, HealthError> {
        let caches = self.client().await.describe_serverless_caches();
        let caches = caches.serverless_cache_name(self.cache.name()).send().await;
        let caches = caches.map_err(failed)?;
        let cache = caches.serverless_caches().first().ok_or_else(none)?;
        Ok(health(cache.status()))
    }

    async fn failovers(&self) -> Result<Vec<i64>, HealthError> {
        let kind = match self.cache.is_serverless() {
            true => SourceType::ServerlessCache,
            false => SourceType::ReplicationGroup,
        };
        let events = self.client().await.describe_events();
        let events = events
            .source_type(kind)
            .source_identifier(self.cache.name())
            .duration(LOOK_BACK_MINUTES)
            .send()
            .await
            .map_err(failed)?;
        let failovers = events
            .events()
            .iter()
            .filter(|event| event.message().is_some_and(tells_of_failover));
        Ok(failovers
            .filter_map(|event| Some(event.date()?.secs()))
            .collect())
    }
}

/// A cache in a state, all of whose nodes serve.
fn health(status: Option<&str>) -> Health {
    let status = status.unwrap_or_default();
    Health {
        healthy: serves(status),
        status: status.to_owned(),
        nodes: 0,
        unavailable: 0,
        failovers: Vec::new(),
    }
}

fn serves(status: &str) -> bool {
    let serving = SERVING.iter();
    serving
        .into_iter()
        .any(|own| own.eq_ignore_ascii_case(status))
}

fn failed(error: impl std::error::Error) -> HealthError {
    HealthError::Failed(DisplayErrorContext(&error).to_string())
}

fn none() -> HealthError {
    HealthError::Failed("there is no cache of this name".to_owned())
}
