//! How a bucket counts, one file an algorithm.
//!
//! Plain Rust beside the script: what runs in memory, and what judges the script in tests.

pub mod token_bucket;
