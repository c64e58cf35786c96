//! A system under faults. Traffic goes on while stores, networks and containers fail and rules change, and each answer is
//! accounted for.

mod account;
mod control;
mod edits;
mod faults;
mod rules;
mod stage;
mod stores;
mod traffic;
mod truth;
mod wrong;

use std::{sync::Arc, time::Duration};

pub use account::Account;
use stage::Stage;
use stores::Stores;
pub use stores::Topology;

/// One run, in a runtime of several threads: faults are made by calls that block. `length` is the time in which faults happen;
/// setting up and looking at what is left come on top.
pub async fn run(topology: Topology, length: Duration) -> Account {
    let mut stores = Stores::start(topology).await;
    let (stage, mut postgres) = Stage::set(&stores, length).await;
    let stage = Arc::new(stage);
    let callers: Vec<_> = (0..stage.seats.len())
        .map(|seat| tokio::spawn(traffic::calls(Arc::clone(&stage), seat)))
        .collect();
    let schedule = tokio::spawn(edits::schedule(Arc::clone(&stage)));
    let editor = tokio::spawn(edits::edit(Arc::clone(&stage)));
    let faults = faults::happen(&stage, &mut stores, &mut postgres).await;
    stage.end();
    let mut answers = Vec::new();
    for caller in callers {
        answers.extend(caller.await.unwrap());
    }
    let edited = editor.await.unwrap();
    let runs = schedule.await.unwrap();
    stores.settled().await;
    let truth = truth::compare(&stage, &edited).await;
    Account::of(topology, &stage, answers, faults, edited, runs, truth)
}
