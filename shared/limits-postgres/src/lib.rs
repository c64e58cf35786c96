//! Rules, registry, revisions and audit in Postgres, or in memory.
//!
//! Read in this order: [`database`] (which store), [`record`] (what it holds), [`refusal`] (when the answer is no), then the
//! operations: [`change_rules`], [`change_pair`], [`between_services`], [`find_rules`], [`change_clients`], [`change_keys`],
//! [`reset`], [`find_clients`], [`read_audit`], and [`feed`], from which the published copy is made. Each is written once, over a
//! session that is either store's. [`admit`] says who may do all that.

pub mod admit;
pub mod between_services;
pub mod change_clients;
pub mod change_keys;
pub mod change_pair;
pub mod change_rules;
mod crowd;
pub mod database;
pub mod feed;
pub mod find_clients;
pub mod find_rules;
mod memory;
pub mod page;
mod postgres;
pub mod read_audit;
pub mod record;
pub mod refusal;
pub mod reset;
mod session;
mod write;

pub use database::{Database, DatabaseError};
pub use feed::{Changes, Head, RegistryChange};
pub use page::Page;
pub use record::{ClientRecord, KeyRecord, RuleRecord};
pub use refusal::{Expected, Refusal, WriteError};
pub use write::Written;
