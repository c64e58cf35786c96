//! `chaos [SECONDS [TOPOLOGY]]`: lets everything fail for so long (120 s) in one topology, or in each of them in turn, and
//! prints the account.
#![expect(clippy::expect_used, reason = "a test by hand")]

use std::{env, process::ExitCode, time::Duration};

use tests::chaos::{Topology, run};

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let seconds = arguments.next().map_or(Ok(120), |text| text.parse());
    let length = Duration::from_secs(seconds.expect("a number of seconds"));
    let topologies = match arguments.next() {
        Some(word) => vec![word.parse().expect("a topology")],
        None => Topology::ALL.to_vec(),
    };
    let mut outcome = ExitCode::SUCCESS;
    for topology in topologies {
        let account = run(topology, length).await;
        println!("{account}");
        if !account.wrong().is_empty() {
            outcome = ExitCode::FAILURE;
        }
    }
    outcome
}
