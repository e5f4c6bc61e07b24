//! `causeway verify`: is what the deployment promises true?
//!
//! Drives real traffic through a running deployment, records what every session
//! wrote and read, and checks that history against the promises. It works from
//! outside only: it reads and writes MySQL with an ordinary login and asks
//! Causeway over HTTP, so that it trusts nothing that it checks. The same
//! traffic can be routed in other ways, to compare.
//!
//! Must not know: how Causeway decides, or any of its types.

mod api;
mod args;
mod causeway;
pub mod checker;
mod chooser;
mod client;
mod login;
mod policy;
mod progress;
mod reader;
mod recorder;
mod report;
mod run_clock;
mod scratch;
mod stats;
mod topology;
mod tracked_gtid;
mod workload;
mod writer;

use std::sync::Arc;

use anyhow::Context;
use tokio_util::sync::CancellationToken;

pub use args::{
    Carrier, OnTimeout, PolicyChoice, ReportFormat, VerifyArgs, VerifyServer, WriteReport,
};
pub use policy::Policy;
pub use report::{LatencyReport, PolicyReport, Report, Verdict, ViolationReport};

use api::Api;
use login::Login;
use run_clock::RunClock;
use scratch::Table;
use stats::PolicyStats;
use topology::{Finder, TopologyWatch};
use workload::Workload;

/// Runs the command and prints its report on standard output.
///
/// # Errors
/// Wrong usage, or no connection to Causeway or the source: exit code 2.
pub async fn run(args: VerifyArgs) -> anyhow::Result<Verdict> {
    let stop = CancellationToken::new();
    let interrupt = stop.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            eprintln!("ending early; the report follows");
            interrupt.cancel();
        }
    });
    let report = verify(&args, stop).await?;
    match args.format {
        ReportFormat::Table => print!("{}", report.to_text()),
        ReportFormat::Json => println!("{}", serde_json::to_string_pretty(&report)?),
    }
    Ok(report.verdict)
}

/// Drives the traffic and checks it, until done or `stop` is cancelled.
///
/// # Errors
/// As [`run`].
pub async fn verify(args: &VerifyArgs, stop: CancellationToken) -> anyhow::Result<Report> {
    args.check_policies().map_err(anyhow::Error::msg)?;
    let login = Login {
        user: args.user.clone(),
        password: std::env::var(&args.password_env).ok(),
    };
    let api = Arc::new(Api::new(args)?);
    let finder = Finder::new(args, api.clone(), login.clone());
    let topology = Arc::new(TopologyWatch::start(finder).await?);
    let table = Arc::new(set_up(args, &login, &topology).await?);
    let workload = Workload {
        args,
        login: login.clone(),
        api,
        topology: topology.clone(),
        table: table.clone(),
        stop: stop.clone(),
        clock: RunClock::start(),
        run_id: rand::random(),
    };
    let results = workload.run().await;
    if !args.keep {
        tear_down(&table, &login, &topology).await;
    }
    Ok(report(args, &results?, stop.is_cancelled()))
}

fn report(args: &VerifyArgs, results: &[(Policy, PolicyStats)], interrupted: bool) -> Report {
    // An early end may leave policies that never had their turn.
    let had_turn = results.iter().filter(|(_, stats)| !stats.elapsed.is_zero());
    let policies: Vec<_> = had_turn
        .map(|(policy, stats)| PolicyReport::new(*policy, stats))
        .collect();
    Report {
        verdict: Verdict::of(&policies),
        interrupted,
        seed: args.seed,
        clients: args.clients,
        reads_per_write: args.reads_per_write,
        consistency: args.consistency.map(checker::Consistency::name),
        policies,
    }
}

async fn set_up(
    args: &VerifyArgs,
    login: &Login,
    topology: &TopologyWatch,
) -> anyhow::Result<Table> {
    let topology = topology.current();
    let table = Table::create(login, &topology.source, &args.schema, args.clients).await;
    let table = table.context("cannot create the scratch table")?;
    let missing = table
        .wait_for_replicas(login, &topology, args.clients)
        .await;
    for name in missing {
        eprintln!("warning: {name} has not got the scratch table yet; reads there see no row");
    }
    Ok(table)
}

/// A table that cannot be dropped is a nuisance, no reason to lose the report.
async fn tear_down(table: &Table, login: &Login, topology: &TopologyWatch) {
    let source = topology.current().source.clone();
    if let Err(error) = table.drop(login, &source).await {
        eprintln!("warning: the scratch table {table} is left behind: {error:#}");
    }
}
