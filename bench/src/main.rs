//! Measures, and prints what came out.

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        None => bench::run(),
        Some("load") => bench::load::run(),
        Some("profile") => bench::profile::run(),
        Some("weigh") => {
            let url = std::env::args().nth(2).unwrap_or_default();
            bench::rows::rules::weigh(&url);
        }
        Some(other) => {
            eprintln!("{other:?} is nothing to measure: nothing for all rows, or load, or profile");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
