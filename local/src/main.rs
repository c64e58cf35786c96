//! Wires the program.

use std::process::ExitCode;

use clap::Parser;
use local::arguments::Arguments;
use tracing_subscriber::EnvFilter;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let environment = |name: &str| std::env::var(name).ok();
    let filter = environment("RUST_LOG").and_then(|filter| EnvFilter::try_new(filter).ok());
    tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|| EnvFilter::new("warn")))
        .with_writer(std::io::stderr)
        .init();
    match arguments.execute(&environment).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
