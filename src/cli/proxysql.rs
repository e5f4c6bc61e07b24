//! `causeway proxysql`: what ProxySQL should hold, shown or made so.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Subcommand;
use indicatif::ProgressBar;

use super::Format;
use crate::config::Config;
use crate::proxysql::once::{self, Outcome};

const EXAMPLE: &str = "Example:
  causeway proxysql plan --config causeway.toml
  causeway proxysql apply --config causeway.toml

Exit code: 0 everything is as it should be; 1 something differs, is held back, or
an instance cannot be reached; 2 the configuration cannot be used.";

/// How often the spinner turns; it shows on a terminal only.
const SPIN_EACH: Duration = Duration::from_millis(100);

/// Options of `causeway proxysql`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct ProxySqlArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show what differs from what should be in force
    #[command(after_help = EXAMPLE)]
    Plan(OnceArgs),
    /// Make it so: one LOAD per instance, verified by reading again
    #[command(after_help = EXAMPLE)]
    Apply(OnceArgs),
}

#[derive(Debug, clap::Args)]
struct OnceArgs {
    /// The configuration file
    #[arg(long, short, value_name = "FILE")]
    config: PathBuf,
    /// Form of the result
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

pub(crate) async fn run(args: &ProxySqlArgs) -> anyhow::Result<ExitCode> {
    let (args, change) = match &args.what {
        What::Plan(args) => (args, false),
        What::Apply(args) => (args, true),
    };
    let config = Config::load(&args.config)?;
    let settings = config
        .proxysql
        .as_ref()
        .with_context(|| format!("{} has no [proxysql] section", args.config.display()))?;
    let progress =
        ProgressBar::new_spinner().with_message("looking at the servers and at ProxySQL");
    progress.enable_steady_tick(SPIN_EACH);
    let outcomes = once::run(&config, settings, change).await;
    progress.finish_and_clear();
    let outcomes = outcomes?;
    match args.format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&outcomes)?),
        Format::Table => outcomes.iter().for_each(print),
    }
    let fine =
        |outcome: &Outcome| outcome.error.is_none() && (outcome.plan.is_empty() || outcome.applied);
    Ok(ExitCode::from(u8::from(!outcomes.iter().all(fine))))
}

fn print(outcome: &Outcome) {
    println!("{} ({})", outcome.instance, outcome.address);
    for change in &outcome.plan.changes {
        let (hostgroup, server) = (change.hostgroup, &change.server);
        println!(
            "  hostgroup {hostgroup} {server}: {} ({})",
            change.what,
            change.why.name()
        );
        println!("    {}", change.statement);
    }
    if let Some(error) = &outcome.error {
        println!("  FAIL: {error}");
    } else if outcome.plan.is_empty() {
        println!("  everything is as it should be");
    } else if outcome.applied {
        println!(
            "  applied and verified: {} rows",
            outcome.plan.changes.len()
        );
    } else if let Some(held) = &outcome.held {
        println!("  held back: {held}");
    } else {
        println!("  then: LOAD MYSQL SERVERS TO RUNTIME");
    }
}
