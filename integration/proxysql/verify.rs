//! `causeway verify --through`: the traffic goes through ProxySQL, and the report
//! tells who answered.

use causeway::verify::Verdict;

use super::{READER, WRITER, hints, proxy, section};
use crate::api::Api;
use crate::harness::proxysql::ProxySql;
use crate::harness::{Topology, shared};
use crate::stub_causeway::{self, Behaviour};
use crate::verify_test::{delay_replicas, listed, policy, run, servers_of};

/// Reads go to the replicas, as in most installations.
async fn split(topology: &Topology) -> anyhow::Result<ProxySql> {
    let proxy = proxy(topology).await?;
    let rule = format!(
        "INSERT INTO mysql_query_rules (rule_id, active, match_digest, destination_hostgroup, \
         apply) VALUES (1, 1, '^SELECT', {READER}, 1)"
    );
    let load = "LOAD MYSQL QUERY RULES TO RUNTIME";
    proxy.admin_run(&[&rule, load]).await?;
    Ok(proxy)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_by_rules_is_found_stale_and_the_writer_hostgroup_is_not() -> anyhow::Result<()> {
    let topology = shared().await;
    delay_replicas(&topology).await?;
    let (proxy, servers) = (split(&topology).await?, servers_of(&topology));
    let writer = format!("hostgroup:{WRITER}");
    let report = run(&[
        "--servers",
        &servers,
        "--through",
        &proxy.traffic_address(),
        "--policies",
        &format!("rules,{writer}"),
    ])
    .await?;
    let (rules, writer) = (policy(&report, "rules"), policy(&report, &writer));
    assert!(rules.stale_reads > 20, "{report:#?}");
    assert_eq!(rules.off_source_pct, Some(100.0), "{report:#?}");
    assert_eq!((writer.stale_reads, writer.off_source_pct), (0, Some(0.0)));
    assert!(
        rules.errors.is_empty() && writer.errors.is_empty(),
        "{report:#?}"
    );
    proxy.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hints_keep_the_promise_through_proxysql() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = split(&topology).await?;
    let api = Api::start(&topology, &section(&[&proxy], &hints())).await?;
    super::hints::until_published(&api.router, topology.servers().len()).await?;
    // The GTIDs of the writes come through ProxySQL, in their OK packets.
    let report = run(&[
        "--url",
        &api.base,
        "--through",
        &proxy.traffic_address(),
        "--max-wait-ms",
        "1000",
    ])
    .await?;
    let hinted = policy(&report, "causeway");
    assert_eq!(report.verdict, Verdict::Kept, "{report:#?}");
    assert_eq!((hinted.stale_reads, hinted.monotonic_violations), (0, 0));
    assert!(hinted.off_source_pct > Some(0.0), "{report:#?}");
    assert!(hinted.errors.is_empty(), "{report:#?}");
    api.stop().await?;
    proxy.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_hints_or_without_proxysql_it_is_said_what_is_missing() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = split(&topology).await?;
    let silent = Behaviour {
        servers: listed(&topology),
        read_from: 0,
        consistency: "session",
        degraded: false,
    };
    let url = stub_causeway::start(silent).await?;
    let through = proxy.traffic_address();
    let report = run(&["--url", &url, "--through", &through]).await?;
    assert_eq!(report.verdict, Verdict::Inconclusive);
    let errors = &report.policies[0].errors;
    let named = errors
        .keys()
        .all(|error| error.contains("[proxysql.hints]"));
    assert!(named && !errors.is_empty(), "{report:#?}");

    let error = run(&["--policies", "rules"]).await.unwrap_err();
    assert!(error.to_string().contains("--through"), "{error:#}");
    let direct = run(&["--policies", "random", "--through", &through]).await;
    assert!(direct.unwrap_err().to_string().contains("hostgroup:N"));
    proxy.stop().await
}
