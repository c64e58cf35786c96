//! The whole system on one machine.
//!
//! [`arguments`] says what can be asked for: [`run`](mod@run), with every handler in this process, or [`watch`], with the real
//! binaries. In both, [`gateway`] stands in for API Gateway as [`template`] describes it.

pub mod arguments;
mod run;
mod watch;

pub mod template;

pub mod gateway;

mod backend;
mod control;

pub mod demo;
mod first_steps;
mod serving;

mod emulator;
mod functions;

pub mod servers;
pub mod topic;
