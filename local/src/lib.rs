//! The whole system on one machine.

pub mod template;

pub mod gateway;

pub mod backend;

pub mod servers;
pub mod topic;
