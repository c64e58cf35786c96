//! The command line of Weir: rules kept in a file, and questions to the check API.
//!
//! `weir rules plan`, read from start to end: [`arguments`] → [`commands`] → [`rules_file`] reads the file, [`held`] what the API
//! holds, by way of [`api`] → [`difference`] compares → [`show`] writes it down. `apply` cuts the same difference into
//! [`batches`] and writes them.

pub mod api;
pub mod arguments;
pub mod batches;
pub mod commands;
pub mod difference;
pub mod exit;
mod fields;
pub mod held;
mod output;
pub mod rules_file;
pub mod show;
pub mod table;
pub mod text;
pub mod yaml;
