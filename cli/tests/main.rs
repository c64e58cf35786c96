//! The real program against real APIs on the loopback.
// Helpers beside the tests are test code too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod check;
mod explain;
mod failures;
mod faults;
mod others;
mod round_trip;
mod rules;
mod signing;
mod support;
mod tls;
