//! The stories.
// Helpers beside the tests are test code too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod authorizer;
mod check;
mod containers;
mod control;
mod counters;
mod pairs;
mod rules;
mod servers;
mod template;
mod topic;
