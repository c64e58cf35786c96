//! How AWS says that a store is: what is common to all kinds of stores.

use std::future::Future;
use std::time::Duration;

use tokio::time::timeout;

/// How long AWS may take to say how a store is. It is asked when all else is done, and can be asked again.
pub const DEADLINE: Duration = Duration::from_secs(2);

/// For how long back AWS is asked for failovers, in minutes.
pub(crate) const LOOK_BACK_MINUTES: i32 = 60;

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

/// An answer that must come within [`DEADLINE`].
pub(crate) async fn in_time<T>(
    answer: impl Future<Output = Result<T, HealthError>>,
) -> Result<T, HealthError> {
    timeout(DEADLINE, answer)
        .await
        .unwrap_or(Err(HealthError::Late))
}

/// Whether a message of AWS tells that a failover is over: each has one that it begins, too.
pub(crate) fn tells_of_failover(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    message.contains("failover") && message.contains("complete")
}
