//! Measures everything, round by round, beside the least that can be had and beside others.
// A benchmark is test code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod function;
pub mod pin;
pub mod report;
pub mod rows;
pub mod timing;

use local::servers::Redis;
use report::Report;
use rows::{authorizer::Authorizer, round_trip::RoundTrip, take::Take};

const ROUNDS: usize = 5;

/// Measures, and prints what came out.
pub fn run() {
    let redis = pin::on(pin::HERE, Redis::start).unwrap_or_else(|error| panic!("{error}"));
    let mut report = Report::default();
    let mut round_trip = RoundTrip::new(&redis);
    let mut take = Take::new(&redis);
    let mut authorizer = Authorizer::new(&redis);
    for round in 0..=ROUNDS {
        round_trip.round(&mut report);
        take.round(&mut report);
        authorizer.round(&mut report);
        if round == 0 {
            report.forget();
        }
    }
    println!("{}", report.tables());
}
