//! What the stories stand on: the real binaries in containers, and stores of their own.
// This crate is test code: what fails here is a failed test, and a panic says so best.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod answer;
mod binaries;
mod bridge;
mod container;
pub mod issuer;
mod operator;
mod region;
mod runtime_api;
pub mod stores;

pub use binaries::Function;
pub use bridge::Bridge;
pub use container::{Container, FunctionError};
pub use operator::Operator;
pub use region::{Region, subscriber};
