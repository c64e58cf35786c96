//! Wires the program.

use std::process::ExitCode;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use weir::arguments::Arguments;
use weir::exit::Exit;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        // Not with clap's own 2, which says that there is a difference.
        Err(told) => {
            let exit = if told.use_stderr() {
                Exit::Error
            } else {
                Exit::Success
            };
            let _ = told.print();
            return exit.into();
        }
    };
    // A file that may not grow is an error of its writing, which is told and cleared away, and no end in the midst of it.
    let _told_otherwise = signal(SignalKind::from_raw(libc::SIGXFSZ));
    let environment = |name: &str| std::env::var(name).ok();
    match arguments.execute(&environment).await {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("{error}");
            Exit::Error.into()
        }
    }
}
