//! The stories.
// Helpers beside the tests are test code too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod algorithms;
mod audit;
mod authorizer;
mod chaos;
mod check;
mod clients;
mod clusters;
mod conformance;
mod connections;
mod containers;
mod control;
mod counters;
mod database;
mod database_login;
mod denials;
mod edges;
mod events;
mod explain;
mod forgeries;
mod holds;
mod hostile;
mod iam_database;
mod identity;
mod known_answers;
mod lines;
mod lost;
mod openapi;
mod outages;
mod pairs;
mod published_keys;
mod publishing;
mod resets;
mod revisions;
mod rules;
mod servers;
mod service_limits;
mod services;
mod strangers;
mod template;
mod tokens;
mod topic;
mod topologies;
mod walks;
mod which_rules;
