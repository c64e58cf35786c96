//! Counters and the published copy of rules and registry: in Redis, or in this process alone.
//!
//! [`Store`] is what the request path asks; [`publish`] is how `refresh` writes. `take.lua` is the one script that decides, and
//! `give.lua` gives back what a decision that came to nothing had taken. On the way to it: `ask` (all buckets of a request, wherever
//! they lie), `topology` (which server keeps a key), `node` (one server, and the connection to it), `breaker` (whether it is asked
//! at all), `fault` (what its errors mean).

mod address;
mod ask;
mod breaker;
mod fault;
pub mod give;
pub mod keys;
pub mod look;
pub mod memory;
mod node;
pub mod publish;
pub mod published;
mod script;
pub mod store;
pub mod take;
mod tls;
mod topology;

pub use look::{Look, Seen, Server};
pub use publish::{LaneState, Page, Published, Version};
pub use published::{Changes, Lookup};
pub use store::{Store, StoreError};
pub use take::{Call, Held, Reply};
