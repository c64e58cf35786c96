//! The command line.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};

use crate::run::Run;
use crate::watch::Watch;

/// The whole of Weir on this machine: a protected API, and the control and check APIs beside it.
#[derive(Debug, Clone, Parser)]
#[command(name = "local", args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArguments,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    /// Run the real functions under `cargo lambda watch`, on a Redis and a Postgres of their own.
    Watch(WatchArguments),
}

#[derive(Debug, Clone, Args)]
struct RunArguments {
    #[command(flatten)]
    shared: SharedArguments,
    /// Port of the control and check APIs on 127.0.0.1; 0 takes any that is free
    #[arg(long, env = "ADMIN_PORT", default_value_t = 8081)]
    admin_port: u16,
    /// A Redis to count in, such as redis://127.0.0.1:6379; without it everything is counted in memory
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// A Postgres to keep rules in, such as postgres://user:password@127.0.0.1/weir; without it they are kept in memory
    #[arg(long, value_name = "URL")]
    database: Option<String>,
}

#[derive(Debug, Clone, Args)]
struct WatchArguments {
    #[command(flatten)]
    shared: SharedArguments,
    /// Port of the functions on 127.0.0.1; 0 takes any that is free
    #[arg(long, env = "FUNCTIONS_PORT", default_value_t = 9000)]
    functions_port: u16,
}

#[derive(Debug, Clone, Args)]
struct SharedArguments {
    /// Port of the protected API on 127.0.0.1; 0 takes any that is free
    #[arg(long, env = "PORT", default_value_t = 8080)]
    port: u16,
    /// The template that says what the APIs are [default: the one beside this program's sources]
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
}

impl Arguments {
    /// Does what was asked for, until Ctrl-C. `environment` is what the functions see beside what is given here.
    pub async fn execute(self, environment: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
        match self.command {
            Some(Command::Watch(watch)) => {
                let watch = Watch {
                    port: watch.shared.port,
                    functions_port: watch.functions_port,
                    template: watch.shared.template()?,
                    root: root(),
                };
                watch.run().await
            }
            None => {
                let run = Run {
                    port: self.run.shared.port,
                    admin_port: self.run.admin_port,
                    redis: self.run.redis,
                    database: self.run.database,
                    template: self.run.shared.template()?,
                };
                run.run(environment).await
            }
        }
    }
}

impl SharedArguments {
    fn template(&self) -> Result<String, String> {
        let path = match &self.template {
            Some(path) => path.clone(),
            None => root().join("template.yaml"),
        };
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// The folder of the workspace.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}
