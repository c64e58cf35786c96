//! Counters and the published copy of rules and registry: in Redis, or in this process alone.
//!
//! [`Store`] is what the request path asks; [`publish`] is how `refresh` writes. `take.lua` is the one script that decides, and
//! `give.lua` gives back what a decision that came to nothing had taken.

mod address;
mod ask;
mod breaker;
mod fault;
pub mod give;
pub mod keys;
pub mod memory;
mod node;
pub mod publish;
pub mod published;
mod script;
pub mod store;
pub mod take;
mod tls;
mod topology;

pub use publish::{LaneState, Page, Published, Version};
pub use published::{Changes, Lookup};
pub use store::{Store, StoreError};
pub use take::{Call, Held, Reply};
