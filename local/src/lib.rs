//! The whole system on one machine.

pub mod template;

pub mod gateway;

pub mod backend;
pub mod control;

pub mod demo;
pub mod first_steps;
pub mod serving;

pub mod emulator;
pub mod functions;
pub mod watch;

pub mod servers;
pub mod topic;
