//! How fast it is, beside the least that can be had and beside others.
//!
//! Every row is measured once a round, one after the other, and compared with its base in the same round: what the machine does
//! beside falls on both.
// A benchmark is test code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod function;
pub mod load;
pub mod open_loop;
pub mod peer;
pub mod pin;
pub mod processor_time;
pub mod profile;
pub mod report;
pub mod rows;
pub mod timing;

use std::time::Instant;

use local::servers::Redis;
use report::Report;
use rows::{
    authorizer::Authorizer, check::Check, cold_start::ColdStart, growth::Growth,
    limiter::InProcess, matching::Matching, offender::Offender, peers::Peers,
    round_trip::RoundTrip, rules::Rules, take::Take,
};

const ROUNDS: usize = 5;

/// Measures every row, and prints what came out.
pub fn run() {
    let started = Instant::now();
    let redis = pin::on(pin::HERE, Redis::start).unwrap_or_else(|error| panic!("{error}"));
    let mut round_trip = RoundTrip::new(&redis);
    let mut take = Take::new(&redis);
    let mut limiter = InProcess::new(&redis);
    let mut peers = Peers::new(&redis);
    let matching = Matching::new();
    let mut rules = Rules::new();
    let mut authorizer = Authorizer::new(&redis);
    let mut cold_start = ColdStart::new(&redis);
    let mut check = Check::new();
    let mut offender = Offender::new(&redis);
    let mut growth = Growth::new(&redis);
    let mut groups: Vec<Group<'_>> = vec![
        ("round trip", Box::new(|report| round_trip.round(report))),
        ("take", Box::new(|report| take.round(report))),
        ("limiter", Box::new(|report| limiter.round(report))),
        ("peers", Box::new(|report| peers.round(report))),
        ("matching", Box::new(|report| matching.round(report))),
        ("rules", Box::new(|report| rules.round(report))),
        ("authorizer", Box::new(|report| authorizer.round(report))),
        ("cold start", Box::new(|report| cold_start.round(report))),
        ("check", Box::new(|report| check.round(report))),
        ("offender", Box::new(|report| offender.round(report))),
        ("growth", Box::new(|report| growth.round(report))),
    ];
    let mut report = Report::default();
    for round in 0..=ROUNDS {
        for (name, measure) in &mut groups {
            let began = Instant::now();
            measure(&mut report);
            let seconds = began.elapsed().as_secs_f64();
            eprintln!("round {round} of {ROUNDS}: {name}, {seconds:.1} s");
        }
        if round == 0 {
            report.forget();
        }
    }
    println!("{}", report.tables());
    eprintln!("{:.0} s in all", started.elapsed().as_secs_f64());
}

/// Rows that are measured together.
type Group<'a> = (&'static str, Box<dyn FnMut(&mut Report) + 'a>);
