//! `causeway verify` against real servers that really lag.

use std::time::Duration;

use causeway::verify::{PolicyReport, Report, Verdict, VerifyArgs, verify};
use clap::Parser as _;
use tokio_util::sync::CancellationToken;

use crate::harness::{Topology, shared};
use crate::stub_causeway::{self, Behaviour};

/// `VerifyArgs` is made to be part of a larger command line.
#[derive(clap::Parser)]
#[command(args_override_self = true)]
struct Cli {
    #[command(flatten)]
    verify: VerifyArgs,
}

pub(crate) async fn run(options: &[&str]) -> anyhow::Result<Report> {
    run_until(options, CancellationToken::new()).await
}

async fn run_until(options: &[&str], stop: CancellationToken) -> anyhow::Result<Report> {
    let common = [
        "verify",
        "--user",
        "root",
        "--clients",
        "4",
        "--seconds",
        "1",
    ];
    let cli = Cli::try_parse_from(common.iter().chain(options))?;
    verify(&cli.verify, stop).await
}

pub(crate) fn servers_of(topology: &Topology) -> String {
    let servers = topology.servers().iter();
    let servers = servers.map(|server| format!("{}={}", server.name(), server.address()));
    servers.collect::<Vec<_>>().join(",")
}

pub(crate) fn policy<'a>(report: &'a Report, name: &str) -> &'a PolicyReport {
    let mut policies = report.policies.iter();
    let found = policies.find(|policy| policy.policy.starts_with(name));
    found.expect("the policy was asked for")
}

pub(crate) async fn delay_replicas(topology: &Topology) -> anyhow::Result<()> {
    for replica in 0..topology.replicas().count() {
        topology.set_source_delay(replica, 1).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_replicas_that_lag_show_stale_reads_and_other_policies_do_not() -> anyhow::Result<()>
{
    let topology = shared().await;
    delay_replicas(&topology).await?;
    let servers = servers_of(&topology);
    let policies = "source,random,sticky:60s,barrier:20ms";
    let report = run(&["--servers", &servers, "--policies", policies]).await?;
    assert!(policy(&report, "random").stale_reads > 20, "{report:#?}");
    assert_eq!(policy(&report, "random").off_source_pct, Some(100.0));
    for name in ["source", "sticky", "barrier"] {
        let quiet = policy(&report, name);
        assert!(quiet.reads > 20, "{report:#?}");
        assert_eq!(
            (quiet.stale_reads, &quiet.errors),
            (0, &Default::default()),
            "{name}"
        );
    }
    assert!(policy(&report, "barrier").reasons["barrier_timeout"] > 0);
    // None of these policies promised anything.
    assert_eq!(report.verdict, Verdict::Kept);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_that_breaks_its_promise_is_found() -> anyhow::Result<()> {
    let topology = shared().await;
    delay_replicas(&topology).await?;
    let lies = |consistency, degraded| Behaviour {
        servers: listed(&topology),
        read_from: 1,
        consistency,
        degraded,
    };
    let url = stub_causeway::start(lies("session", false)).await?;
    let report = run(&["--url", &url]).await?;
    assert_eq!(report.verdict, Verdict::Violated, "{report:#?}");
    assert!(report.policies[0].violations.by_kind["read_your_writes"] > 0);
    assert!(report.to_text().contains("it did not see its own write"));

    let url = stub_causeway::start(lies("bounded", false)).await?;
    let bounded = [
        "--url",
        &url,
        "--consistency",
        "bounded",
        "--max-staleness-ms",
        "300",
    ];
    let report = run(&bounded).await?;
    assert!(report.policies[0].violations.by_kind["bounded_staleness"] > 0);

    // Whoever admits it has broken nothing.
    let url = stub_causeway::start(lies("session", true)).await?;
    let report = run(&["--url", &url]).await?;
    assert_eq!(report.verdict, Verdict::Kept);
    assert!(report.policies[0].degraded_stale_reads > 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_that_keeps_strong_reads_passes_and_its_traces_are_removed() -> anyhow::Result<()>
{
    let topology = shared().await;
    let honest = Behaviour {
        servers: listed(&topology),
        read_from: 0,
        consistency: "strong",
        degraded: false,
    };
    let url = stub_causeway::start(honest).await?;
    for options in [
        ["--via", "session"],
        ["--via", "token"],
        ["--writes", "fence"],
    ] {
        let options = [&["--url", &url, "--consistency", "strong"][..], &options].concat();
        let report = run(&options).await?;
        assert_eq!(report.verdict, Verdict::Kept, "{report:#?}");
        assert!(report.policies[0].reads > 20);
    }
    let query = "SELECT COUNT(*) FROM information_schema.schemata \
                 WHERE schema_name = 'causeway_verify'";
    assert_eq!(topology.source().value::<u64>(query).await?, 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_that_was_there_before_is_left_alone() -> anyhow::Result<()> {
    let topology = shared().await;
    let servers = servers_of(&topology);
    run(&[
        "--servers",
        &servers,
        "--policies",
        "random",
        "--schema",
        "app",
    ])
    .await?;
    let tables = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'app'";
    assert_eq!(topology.source().value::<u64>(tables).await?, 0);
    topology
        .source()
        .execute("CREATE TABLE app.still_there (id INT)")
        .await
}

#[tokio::test]
async fn without_a_causeway_the_error_says_what_to_look_at() {
    let error = run(&["--url", "http://127.0.0.1:9"]).await.unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("is `causeway serve` running"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_writes_follow_a_source_that_moved() -> anyhow::Result<()> {
    let topology = shared().await;
    let servers = servers_of(&topology);
    let options = [
        "--servers",
        &servers,
        "--policies",
        "source",
        "--seconds",
        "4",
    ];
    let (report, moved) = tokio::join!(run(&options), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        topology
            .source()
            .execute("SET GLOBAL super_read_only = ON")
            .await?;
        topology.wait_caught_up().await?;
        topology.promote(0).await
    });
    moved?;
    let report = report?;
    let policy = policy(&report, "source");
    assert_eq!(
        (policy.stale_reads, policy.monotonic_violations),
        (0, 0),
        "{report:#?}"
    );
    assert!(
        policy.errors.keys().any(|error| error.contains("1290")),
        "{report:#?}"
    );
    let uuid = topology.source().uuid();
    let own = topology.source().executed().await?;
    assert!(
        own.contains(&uuid),
        "no write reached the new source: {own}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_stopped_reports_what_it_has() -> anyhow::Result<()> {
    let topology = shared().await;
    let servers = servers_of(&topology);
    let options = [
        "--servers",
        &servers,
        "--policies",
        "source,random",
        "--seconds",
        "300",
    ];
    let stop = CancellationToken::new();
    let (report, ()) = tokio::join!(run_until(&options, stop.clone()), async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        stop.cancel();
    });
    let report = report?;
    assert!(report.interrupted);
    assert_eq!(report.policies.len(), 1, "the second never had its turn");
    assert!(report.policies[0].reads > 0);
    Ok(())
}

pub(crate) fn listed(topology: &Topology) -> Vec<stub_causeway::Listed> {
    let source = topology.source().name();
    let role = |name| if name == source { "source" } else { "replica" };
    let servers = topology.servers().iter();
    servers
        .map(|server| {
            (
                server.name().to_owned(),
                server.address(),
                role(server.name()),
            )
        })
        .collect()
}
