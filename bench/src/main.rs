//! Measures, and prints what came out.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("load") => {
            bench::load::run();
            return ExitCode::SUCCESS;
        }
        Some("profile") => {
            bench::profile::run();
            return ExitCode::SUCCESS;
        }
        // What the rows of rules start this very program for.
        Some("weigh") => {
            bench::rows::rules::weigh(&arguments[1]);
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let keep = arguments.first().is_some_and(|first| first == "keep");
    if keep {
        arguments.remove(0);
    }
    match bench::run(keep, &arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
