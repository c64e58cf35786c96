//! What the stories stand on: the real binaries in containers, and stores of their own.
// This crate is test code: what fails here is a failed test, and a panic says so best.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod answer;
mod aws_health;
mod binaries;
mod bridge;
pub mod certificates;
pub mod chaos;
pub mod console;
mod container;
pub mod issuer;
mod liar;
mod line;
mod operator;
pub mod question;
mod redis_cluster;
mod region;
mod runtime_api;
mod sentinels;
pub mod stores;
pub mod template;
mod until;

pub use aws_health::{AwsHealth, Manner, Said};
pub use binaries::Function;
pub use bridge::Bridge;
pub use container::{Container, FunctionError};
pub use liar::{Liar, Told};
pub use line::Line;
pub use operator::Operator;
pub use redis_cluster::{Moving, RedisCluster};
pub use region::{Region, subscriber};
pub use sentinels::Sentinels;
pub use until::until;
