//! What is measured: a file for each group of rows.

pub mod authorizer;
pub mod round_trip;
pub mod take;
