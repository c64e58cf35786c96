//! The control API: rules, clients, migrations.

pub mod log;
pub mod migrate;
