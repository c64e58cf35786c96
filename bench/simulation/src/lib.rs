//! What the simulation and the benchmark write alike.

pub mod markdown;
