//! How the stores are: looked at on the schedule, when all else is done, and never in its way.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use aws::health::{DEADLINE, Health, HealthError, StoreHealth};
use aws::metrics;
use limits::moment::unix_us;
use limits::settings::Settings;
use limits_postgres::Database;
use limits_redis::{Look, Seen, Server, Store};
use tokio::time::timeout;
use tracing::warn;

/// How old a failover may be, in seconds, that is news to whoever has no earlier look: that may have been lost with it.
const NEWS_SECONDS: i64 = 120;

/// Who looks: at what AWS says, and at the stores themselves.
#[derive(Debug)]
pub struct Examiner(StoreHealth);

impl Examiner {
    /// Reads `REDIS_CACHE_NAME` and `DATABASE_INSTANCE`; what is not set is not asked about, and nothing is with `STORE_HEALTH` false: a
    /// cache is named for logging in too. None where a fault was noted in `settings`.
    pub fn read(settings: &mut Settings<'_>) -> Option<Self> {
        let cache = settings.or("REDIS_CACHE_NAME", None, |name| name.parse().map(Some));
        let database = settings.or("DATABASE_INSTANCE", None, |id| id.parse().map(Some));
        let asks = settings.flag("STORE_HEALTH", true)?;
        Some(Self(StoreHealth::new(
            cache?.filter(|_| asks),
            database?.filter(|_| asks),
        )))
    }

    /// Looks at the stores, counts what it sees, and notes it beside what is published. What does not answer in [`DEADLINE`] is not
    /// known; nothing fails.
    pub async fn look(&self, database: &Database, store: &Store) {
        let cache = async { known("ElastiCache", self.0.cache().await?) };
        let instance = async { known("RDS", self.0.database().await?) };
        let (cache, instance, servers, lag, earlier) = tokio::join!(
            cache,
            instance,
            in_time("Redis", store.servers()),
            in_time("Postgres", database.replica_lag()),
            in_time("Redis", store.last_look()),
        );
        let earlier = earlier.flatten();
        let servers = servers.unwrap_or_default();
        let cache_failover = earlier.as_ref().and_then(|look| look.cache_failover);
        let database_failover = earlier.as_ref().and_then(|look| look.database_failover);
        let now = unix_us() / 1_000_000;
        let since = |last: Option<i64>| match &earlier {
            Some(_) => last.unwrap_or(0),
            None => now.cast_signed() - NEWS_SECONDS,
        };
        let look = Look {
            at: now,
            cache_failover: count_failovers(cache.as_ref(), since(cache_failover))
                .max(cache_failover),
            database_failover: count_failovers(instance.as_ref(), since(database_failover))
                .max(database_failover),
            cache: cache.map(|health| seen(health, &servers)),
            database: instance.map(|health| seen(health, &[])),
            replica_lag_ms: lag.flatten().map(milliseconds),
            servers,
        };
        count(&look, earlier.as_ref());
        in_time("Redis", store.note_look(&look)).await;
    }
}

/// What AWS says, where it does.
fn known(whom: &str, health: Result<Health, HealthError>) -> Option<Health> {
    health
        .inspect_err(|error| {
            metrics::HEALTH_UNKNOWN.add(1);
            warn!(%error, "{whom} does not say how the store is");
        })
        .ok()
}

/// What a store answers in time.
async fn in_time<T, E: Display>(
    whom: &str,
    answer: impl Future<Output = Result<T, E>>,
) -> Option<T> {
    match timeout(DEADLINE, answer).await {
        Ok(Ok(answer)) => return Some(answer),
        Ok(Err(error)) => warn!(%error, "{whom} does not say how it is"),
        Err(_) => warn!("{whom} does not say within {DEADLINE:?} how it is"),
    }
    None
}

/// Counts the failovers after a moment, and tells when the last of all was.
fn count_failovers(health: Option<&Health>, since: i64) -> Option<i64> {
    let failovers = &health?.failovers;
    let news = failovers.iter().filter(|at| **at > since);
    metrics::FAILOVERS.add(news.count() as u64);
    failovers.iter().copied().max()
}

/// What AWS says, and how many of the nodes that it knows the servers miss.
fn seen(health: Health, servers: &[Server]) -> Seen {
    let there = |server: &Server| u64::from(server.primary) + server.replicas;
    let there: u64 = servers.iter().map(there).sum();
    let missed = match servers.is_empty() {
        true => 0,
        false => health.nodes.saturating_sub(there),
    };
    Seen {
        status: health.status,
        healthy: health.healthy,
        unavailable: health.unavailable.max(missed),
    }
}

/// What is not known any more is not told on.
fn count(look: &Look, earlier: Option<&Look>) {
    let set = |gauge: &metrics::Gauge, number: Option<u64>| match number {
        Some(number) => gauge.set(number),
        None => gauge.unset(),
    };
    let healthy = |seen: &Seen| u64::from(seen.healthy);
    set(&metrics::CACHE_HEALTHY, look.cache.as_ref().map(healthy));
    set(
        &metrics::DATABASE_HEALTHY,
        look.database.as_ref().map(healthy),
    );
    let unavailable = look.cache.as_ref().map(|seen| seen.unavailable);
    set(&metrics::CACHE_NODES_UNAVAILABLE, unavailable);
    set(&metrics::DATABASE_REPLICA_LAG, look.replica_lag_ms);
    let evictions = earlier.map_or(0, |earlier| look.evictions_since(earlier));
    metrics::EVICTIONS.add(evictions);
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
