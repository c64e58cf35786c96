//! The control API: rules, clients, migrations.
