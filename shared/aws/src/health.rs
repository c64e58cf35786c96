//! How AWS says that the stores are.

mod cache;
mod database;

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_rds::error::DisplayErrorContext;
use aws_sdk_rds::primitives::DateTime;
use tokio::sync::OnceCell;
use tokio::time::timeout;

pub use database::InstanceId;

use crate::elasticache_token::CacheName;
use crate::sdk;

/// How long AWS may take to say how a store is. It is asked when all else is done, and can be asked again.
pub const DEADLINE: Duration = Duration::from_secs(2);

/// For how long back AWS is asked for failovers, in minutes.
const LOOK_BACK_MINUTES: i32 = 60;

/// How a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// In AWS's word.
    pub status: String,
    /// Whether that means that it serves.
    pub healthy: bool,
    /// How many nodes it has; a serverless cache tells of none.
    pub nodes: u64,
    /// How many of them do not serve.
    pub unavailable: u64,
    /// When it failed over in the last hour, in seconds since 1970, in no order.
    pub failovers: Vec<i64>,
}

/// Why AWS did not say how a store is.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    /// It did not answer within [`DEADLINE`].
    #[error("AWS did not answer within {} s", DEADLINE.as_secs())]
    Late,
    /// It refused, could not be reached, or knows no such store.
    #[error("{0}")]
    Failed(String),
}

/// Whom to ask about the stores.
#[derive(Debug)]
pub struct StoreHealth {
    /// Made when AWS is first asked: most containers begin with something else to do.
    config: OnceCell<SdkConfig>,
    cache: Option<CacheName>,
    database: Option<InstanceId>,
}

impl StoreHealth {
    /// Speaks to nobody yet; the SDK reads its own settings (credentials, region, `AWS_ENDPOINT_URL_ELASTICACHE`,
    /// `AWS_ENDPOINT_URL_RDS`) from the environment. What has no name is not asked about.
    pub fn new(cache: Option<CacheName>, database: Option<InstanceId>) -> Self {
        Self {
            config: OnceCell::new(),
            cache,
            database,
        }
    }

    /// Asks ElastiCache how the cache is. The role needs `elasticache:DescribeReplicationGroups`, or
    /// `elasticache:DescribeServerlessCaches`, and `elasticache:DescribeEvents`.
    ///
    /// # Errors
    /// Within [`DEADLINE`], whatever the network does.
    pub async fn cache(&self) -> Option<Result<Health, HealthError>> {
        let name = self.cache.as_ref()?;
        Some(in_time(async { cache::ask(self.config().await, name).await }).await)
    }

    /// Asks RDS how the database instance is. The role needs `rds:DescribeDBInstances` and `rds:DescribeEvents`.
    ///
    /// # Errors
    /// Within [`DEADLINE`], whatever the network does.
    pub async fn database(&self) -> Option<Result<Health, HealthError>> {
        let id = self.database.as_ref()?;
        Some(in_time(async { database::ask(self.config().await, id).await }).await)
    }

    async fn config(&self) -> &SdkConfig {
        self.config
            .get_or_init(|| sdk::config(None, DEADLINE))
            .await
    }
}

async fn in_time(
    answer: impl Future<Output = Result<Health, HealthError>>,
) -> Result<Health, HealthError> {
    timeout(DEADLINE, answer)
        .await
        .unwrap_or(Err(HealthError::Late))
}

fn failed(error: impl Error) -> HealthError {
    HealthError::Failed(DisplayErrorContext(&error).to_string())
}

/// When failovers were over, of messages and their moments: each has a message that it begins, too.
fn failovers<'a>(
    events: impl Iterator<Item = (Option<&'a str>, Option<&'a DateTime>)>,
) -> Vec<i64> {
    let over = events.filter(|(message, _)| {
        let message = message.unwrap_or_default().to_ascii_lowercase();
        message.contains("failover") && message.contains("complete")
    });
    over.filter_map(|(_, at)| Some(at?.secs())).collect()
}
