//! The request path that `authorizer` and `check` share: who is it, which rules apply, is there room.
//!
//! Read [`Limiter::decide`] first; everything else is what it asks in turn: [`who`] (who is it), [`registry`] (what is remembered
//! of that), [`view`] (the rules that this container has, and catching up), `judge` (which rules apply, and is there room), `denials`
//! (who is known to be empty), `fallback` (what it grants by itself while Redis is out), [`decision`] (what came out), [`headers`] and [`reply`] (how callers are told), `tally` (what is counted of it).
//! [`pair`] is the same for a service that calls another, [`explain`] tells operators why.

pub mod config;
pub mod decision;
mod denials;
pub mod explain;
mod fallback;
pub mod headers;
mod judge;
pub mod limiter;
mod looks;
mod news;
pub mod pair;
mod plan;
pub mod registry;
pub mod reply;
mod tally;
pub mod view;
pub mod who;

pub use config::Config;
pub use decision::{Decision, Party, Reason, Refusal, Told, Verdict};
pub use explain::{Explanation, Supposition};
pub use limiter::{Limiter, Request};
pub use pair::Pair;
pub use reply::Reply;
pub use tally::conclude;
pub use who::{Asker, Who};
