//! The whole system on one machine.
//!
//! [`arguments`] says what can be asked for: [`run`](mod@run), with every handler in this process, or [`watch`], with the real
//! binaries. In both, [`gateway`] stands in for API Gateway as [`template`] describes it.

pub mod arguments;
pub mod run;
pub mod watch;

pub mod template;

pub mod gateway;

pub mod backend;
pub mod control;

pub mod demo;
pub mod first_steps;
pub mod serving;

pub mod emulator;
pub mod functions;

pub mod servers;
pub mod topic;
