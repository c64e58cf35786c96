//! The whole system on one machine.

pub mod servers;
pub mod topic;
