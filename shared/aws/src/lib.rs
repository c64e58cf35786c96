//! What talks to AWS itself; by feature, so that a function takes only what it needs.

#[cfg(feature = "container")]
pub mod container;
#[cfg(feature = "redis-token")]
pub mod elasticache_token;
#[cfg(feature = "events")]
pub mod lenient;
#[cfg(feature = "logs")]
pub mod logs;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "rds-token")]
pub mod rds_token;
#[cfg(any(feature = "rds-token", feature = "redis-token"))]
pub mod signer;
#[cfg(feature = "sns")]
pub mod sns;
#[cfg(feature = "tls")]
pub mod tls;
