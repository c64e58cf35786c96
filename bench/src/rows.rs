//! What is measured: a file for each group of rows.

pub mod authorizer;
pub mod check;
pub mod cold_start;
pub mod growth;
pub mod limiter;
pub mod matching;
pub mod offender;
pub mod peers;
pub mod round_trip;
pub mod rules;
pub mod take;
