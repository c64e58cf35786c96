//! How ElastiCache says that a cache is.

use aws_config::SdkConfig;
use aws_sdk_elasticache::Client;
use aws_sdk_elasticache::types::SourceType;

use super::{Health, HealthError, LOOK_BACK_MINUTES, failed, failovers};
use crate::elasticache_token::CacheName;

/// In which of its states a cache, or a part of it, serves.
const SERVING: [&str; 3] = ["available", "modifying", "snapshotting"];

/// Asks how a cache is.
pub(super) async fn ask(config: &SdkConfig, cache: &CacheName) -> Result<Health, HealthError> {
    let client = Client::new(config);
    let described = async {
        match cache.is_serverless() {
            true => serverless(&client, cache.name()).await,
            false => group(&client, cache.name()).await,
        }
    };
    let events = async {
        let kind = match cache.is_serverless() {
            true => SourceType::ServerlessCache,
            false => SourceType::ReplicationGroup,
        };
        let events = client.describe_events().source_type(kind);
        let events = events.source_identifier(cache.name());
        let events = events.duration(LOOK_BACK_MINUTES).send().await;
        events.map_err(failed)
    };
    let (health, events) = tokio::try_join!(described, events)?;
    let events = events.events().iter();
    Ok(Health {
        failovers: failovers(events.map(|event| (event.message(), event.date()))),
        ..health
    })
}

async fn group(client: &Client, name: &str) -> Result<Health, HealthError> {
    let groups = client.describe_replication_groups();
    let groups = groups.replication_group_id(name).send().await;
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

async fn serverless(client: &Client, name: &str) -> Result<Health, HealthError> {
    let caches = client.describe_serverless_caches();
    let caches = caches.serverless_cache_name(name).send().await;
    let caches = caches.map_err(failed)?;
    let cache = caches.serverless_caches().first().ok_or_else(none)?;
    Ok(health(cache.status()))
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
    SERVING.iter().any(|own| own.eq_ignore_ascii_case(status))
}

fn none() -> HealthError {
    HealthError::Failed("there is no cache of this name".to_owned())
}
