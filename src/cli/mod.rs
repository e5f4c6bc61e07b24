//! The command line: arguments in, text or JSON out, an exit code.
//!
//! Exit codes: 0 fine; 1 the command ran and found something wrong; 2 it could
//! not run (usage, configuration, no connection).

mod ask;
mod check;
mod client;
mod daemon;
mod feed;
mod from_proxysql;
mod init;
mod lag;
mod proxysql;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

use crate::verify;

/// Read-your-writes for MySQL behind ProxySQL.
///
/// Knows which replica has made which transaction visible, remembers what each
/// session wrote, and tells where a read may go.
#[derive(Debug, Parser)]
#[command(
    name = "causeway",
    version,
    after_help = "Example:\n  causeway check --config causeway.toml && causeway serve --config causeway.toml"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the sidecar
    Serve(serve::ServeArgs),
    /// Serve only the GTID feeds for ProxySQL
    Feed(feed::FeedArgs),
    /// Write a configuration for the servers that ProxySQL knows
    Init(init::InitArgs),
    /// Check configuration, logins, privileges, server and ProxySQL settings
    Check(check::CheckArgs),
    /// Show every server and how far it is behind
    Lag(lag::LagArgs),
    /// Show or apply what ProxySQL's hostgroups should hold
    #[command(name = "proxysql")]
    ProxySql(proxysql::ProxySqlArgs),
    /// Ask a running Causeway where a read may go
    Route(Box<ask::RouteArgs>),
    /// Tell a running Causeway of a commit
    Wrote(ask::WroteArgs),
    /// Drive traffic through a deployment and check the promises
    Verify(Box<verify::VerifyArgs>),
    /// Exit 0 when a running Causeway answers (for container health checks)
    Health(client::Target),
}

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("causeway: cannot start: {error}");
            return ExitCode::from(2);
        }
    };
    let outcome = runtime.block_on(run(cli.command));
    // A name look-up may still run on a thread of its own: do not wait for it.
    runtime.shutdown_background();
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("causeway: {error:#}");
            ExitCode::from(2)
        }
    }
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(args) => serve::run(&args).await,
        Command::Feed(args) => feed::run(&args).await,
        Command::Init(args) => init::run(&args).await,
        Command::Check(args) => check::run(&args).await,
        Command::Lag(args) => lag::run(&args).await,
        Command::ProxySql(args) => proxysql::run(&args).await,
        Command::Route(args) => ask::route(&args).await,
        Command::Wrote(args) => ask::wrote(&args).await,
        Command::Verify(args) => Ok(ExitCode::from(verify::run(*args).await?.exit_code())),
        Command::Health(target) => target.client()?.health().await,
    }
}
