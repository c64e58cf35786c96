//! The command line.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::api::{Api, Signing, When};
use crate::commands::{Apply, Check, Explain, Export, Plan};
use crate::exit::Exit;

/// Keeps the rules of a Weir in a file, and asks it whether calls are allowed.
///
/// Exit status: 0 done, or no difference, or allowed; 1 error; 2 `rules plan` found a difference; 3 `check` was told that the
/// call is blocked.
#[derive(Debug, Clone, Parser)]
#[command(name = "weir", version, arg_required_else_help = true)]
pub struct Arguments {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
struct Connection {
    /// Where the control API is, its stage included
    #[arg(
        long,
        env = "WEIR_URL",
        value_name = "URL",
        default_value = "http://127.0.0.1:8081",
        global = true,
        hide_env_values = true
    )]
    url: String,
    /// Where the check API is [default: where the control API is]
    #[arg(
        long,
        env = "WEIR_CHECK_URL",
        value_name = "URL",
        global = true,
        hide_env_values = true
    )]
    check_url: Option<String>,
    /// Whether requests are signed (SigV4), by the credentials that the AWS CLI would take
    #[arg(long, value_name = "WHEN", value_enum, default_value_t, global = true)]
    sigv4: When,
    /// The region to sign for [default: that of the host, else AWS_REGION]
    #[arg(long, global = true)]
    region: Option<String>,
    /// How long one request may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3_600), global = true)]
    timeout: u64,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    /// Compare a file of rules with what the API holds, and bring the one to the other
    #[command(subcommand)]
    Rules(RulesCommand),
    /// Ask whether a client may make a call, and count it
    ///
    /// Exit status: 0 allowed, 3 blocked, 1 where there is no answer.
    Check(CheckArguments),
    /// Show what would become of a call and why: which rules it meets, which of them count, and what their buckets hold
    ///
    /// Counts nothing. Exit status: 0 whatever the decision, 1 where there is no answer.
    Explain(ExplainArguments),
}

#[derive(Debug, Clone, Subcommand)]
enum RulesCommand {
    /// Show what `apply` would change; change nothing
    ///
    /// Exit status: 0 no difference, 2 a difference, 1 error.
    Plan(PlanArguments),
    /// Make the API hold what the file says
    ///
    /// Shows the difference, asks, and writes it: all or none up to 1,000 changes (and 1 MB), else in several writes, what is put
    /// before what is deleted, and rules that change places with one another in one. Where it fails in between, apply again.
    Apply(ApplyArguments),
    /// Write what the API holds as such a file
    Export(ExportArguments),
}

/// What is compared.
#[derive(Debug, Clone, Args)]
struct PlanArguments {
    /// The file of rules (YAML)
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// Delete rules that are not in the file; without it they are shown and left alone
    #[arg(long)]
    prune: bool,
}

#[derive(Debug, Clone, Args)]
struct ApplyArguments {
    #[command(flatten)]
    plan: PlanArguments,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Write even where somebody else has changed rules since they were compared, or where that cannot be told
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Clone, Args)]
struct ExportArguments {
    /// The file to write; without it, standard output
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Overwrite the file where it exists
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Clone, Args)]
struct CheckArguments {
    /// The client's id
    client: String,
    /// What it calls: `GET /orders/1`, or the name of a service
    resource: String,
    /// What the call costs, in requests
    #[arg(long, default_value_t = 1)]
    tokens: u64,
    /// The address that the client calls from
    #[arg(long, value_name = "ADDRESS")]
    ip: Option<IpAddr>,
    /// Look only: count nothing
    #[arg(long)]
    look: bool,
}

#[derive(Debug, Clone, Args)]
struct ExplainArguments {
    /// What is called: `GET /orders/1`, or the name of a service
    resource: String,
    /// The client that calls
    #[arg(long)]
    client: Option<String>,
    /// The tier of the client, in the place of what the registry says
    #[arg(long)]
    tier: Option<String>,
    /// The address that the client calls from
    #[arg(long, value_name = "ADDRESS")]
    ip: Option<IpAddr>,
    /// What the call costs, in requests
    #[arg(long, default_value_t = 1)]
    tokens: u64,
    /// Show the answer as it came
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// Does what was asked for. `environment` tells the region, where nothing else does.
    ///
    /// # Errors
    /// Why it could not be done, in one line or several.
    pub async fn execute(
        self,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Exit, String> {
        let connection = self.connection;
        match self.command {
            Command::Rules(RulesCommand::Plan(arguments)) => {
                let api = connection.control(environment)?;
                arguments.plan().run(&api).await
            }
            Command::Rules(RulesCommand::Apply(arguments)) => {
                let api = connection.control(environment)?;
                let apply = Apply {
                    plan: arguments.plan.plan(),
                    asks: !arguments.yes,
                    force: arguments.force,
                };
                apply.run(&api).await
            }
            Command::Rules(RulesCommand::Export(arguments)) => {
                let api = connection.control(environment)?;
                let export = Export {
                    file: arguments.file,
                    overwrites: arguments.force,
                };
                export.run(&api).await
            }
            Command::Check(arguments) => {
                let api = connection.check(environment)?;
                let check = Check {
                    client: arguments.client,
                    resource: arguments.resource,
                    tokens: arguments.tokens,
                    ip: arguments.ip,
                    looks: arguments.look,
                };
                check.run(&api).await
            }
            Command::Explain(arguments) => {
                let api = connection.control(environment)?;
                let explain = Explain {
                    resource: arguments.resource,
                    client: arguments.client,
                    tier: arguments.tier,
                    ip: arguments.ip,
                    tokens: arguments.tokens,
                    json: arguments.json,
                };
                explain.run(&api).await
            }
        }
    }
}

impl PlanArguments {
    fn plan(self) -> Plan {
        Plan {
            file: self.file,
            prune: self.prune,
        }
    }
}

impl Connection {
    fn control(&self, environment: &dyn Fn(&str) -> Option<String>) -> Result<Api, String> {
        self.api(&self.url, environment)
    }

    fn check(&self, environment: &dyn Fn(&str) -> Option<String>) -> Result<Api, String> {
        self.api(self.check_url.as_ref().unwrap_or(&self.url), environment)
    }

    fn api(&self, url: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<Api, String> {
        let usual_region = environment("AWS_REGION").or_else(|| environment("AWS_DEFAULT_REGION"));
        let signing = Signing {
            when: self.sigv4,
            region: self.region.clone(),
            usual_region,
        };
        Api::new(url, &signing, Duration::from_secs(self.timeout))
    }
}
