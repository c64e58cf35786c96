//! What talks to AWS itself; by feature, so that a function takes only what it needs.

#[cfg(feature = "events")]
pub mod lenient;
#[cfg(feature = "logs")]
pub mod logs;
#[cfg(feature = "sns")]
pub mod sns;
