//! The domain of Weir: what a rule is, which rules apply to a call, and how a bucket counts.
//!
//! No async, no I/O, no AWS: time, randomness and storage come in as arguments. Read in this order:
//! [`pattern`] and [`path`] (what is called), [`rule`] (who may call it how often), [`rule_set`] (which rules apply),
//! [`quota`] and [`algorithms`] (how a bucket counts), [`counters`] (many buckets, all or none, in this process). Only [`moment`] reads
//! clocks, for those who pass their time in.

pub mod algorithms;
pub mod bucket;
pub mod counters;
pub mod fields;
pub mod lane;
pub mod moment;
pub mod path;
pub mod pattern;
mod place;
pub mod quota;
pub mod registry;
pub mod rule;
pub mod rule_set;
pub mod settings;
mod shares;
mod whole;
mod words;

pub use bucket::{Bucket, BucketName};
pub use fields::{Fault, Fields};
pub use lane::Lane;
pub use moment::Moment;
pub use path::Resource;
pub use pattern::Pattern;
pub use place::Place;
pub use quota::{Quota, Tick};
pub use registry::Client;
pub use rule::{Draft, Rule};
pub use rule_set::RuleSet;
pub use whole::faults_of_the_whole;

/// How many chunks the published rules are spread over.
pub const CHUNKS: u16 = 4096;

/// The chunk of the published copy that a rule lies in: by a hash of its id, so that chosen ids cannot crowd one.
pub fn chunk_of(rule: uuid::Uuid) -> u16 {
    use sha2::{Digest, Sha256};
    let hash = Sha256::digest(rule.as_bytes());
    u16::from_be_bytes([hash[0], hash[1]]) % CHUNKS
}
