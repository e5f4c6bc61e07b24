//! A routed read reaches its server by a comment.

use causeway::route::Consistency;
use causeway::router::{Read, Route, Router};
use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;

use super::{BASE, WHO, hints, online, proxy, router, section, status};
use crate::harness::proxysql::ProxySql;
use crate::harness::{Topology, shared, until};
use crate::support::SOON;

/// Waits until routed reads are answered with a hostgroup.
pub(super) async fn until_published(router: &Router, servers: usize) -> anyhow::Result<()> {
    until("the hints to be published", SOON, || async {
        let controller = router.proxysql().expect("it is configured");
        let published = (0..servers).all(|server| {
            let ix = causeway::fleet::ServerIx(u16::try_from(server).expect("few servers"));
            controller.hints().hostgroup(ix).is_some()
        });
        Ok(published.then_some(()))
    })
    .await
}

fn port(route: &Route) -> String {
    let (_, port) = route.info.address.rsplit_once(':').expect("host:port");
    port.to_owned()
}

async fn routed(router: &Router, consistency: Consistency) -> anyhow::Result<(Route, String)> {
    let read = Read {
        consistency: Some(consistency),
        ..Read::default()
    };
    let route = router.route(&read).await?;
    let hostgroup = route.hostgroup.expect("hints are in force");
    Ok((route, causeway::proxysql::hints::comment(hostgroup)))
}

async fn through(proxy: &ProxySql) -> anyhow::Result<Conn> {
    Ok(Conn::new(proxy.traffic_opts("root")).await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comment_sends_a_read_to_its_server() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = proxy(&topology).await?;
    let router = router(&topology, &section(&[&proxy], &hints())).await?;
    until_published(&router, topology.servers().len()).await?;
    let mut conn = through(&proxy).await?;
    let mut seen = std::collections::BTreeSet::new();
    for n in 0..60 {
        let promise = if n % 3 == 0 {
            Consistency::Strong
        } else {
            Consistency::Eventual
        };
        let (route, comment) = routed(&router, promise).await?;
        let text: Option<String> = conn.query_first(format!("{comment} {WHO}")).await?;
        assert_eq!(text, Some(port(&route)), "text protocol");
        let prepared: Option<String> = conn.exec_first(format!("{comment} {WHO}"), ()).await?;
        assert_eq!(prepared, Some(port(&route)), "prepared statement");
        seen.insert(port(&route));
    }
    assert!(seen.len() >= 2, "reads went to {seen:?} only");
    conn.disconnect().await?;
    router.stop().await;
    proxy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commented_transaction_stays_on_its_server() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = proxy(&topology).await?;
    let router = router(&topology, &section(&[&proxy], &hints())).await?;
    until_published(&router, topology.servers().len()).await?;
    let mut conn = through(&proxy).await?;
    for _ in 0..10 {
        let (route, comment) = routed(&router, Consistency::Eventual).await?;
        conn.query_drop(format!("{comment} START TRANSACTION READ ONLY"))
            .await?;
        let first: Option<String> = conn.query_first(WHO).await?;
        // Inside a transaction a comment is ignored: the README says so.
        let other = format!("/* hostgroup={} */ {WHO}", BASE + 1);
        let second: Option<String> = conn.query_first(other).await?;
        conn.query_drop("COMMIT").await?;
        assert_eq!((first, second), (Some(port(&route)), Some(port(&route))));
    }
    conn.disconnect().await?;
    router.stop().await;
    proxy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_hint_hostgroup_has_the_source_standing_by() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = proxy(&topology).await?;
    let router = router(&topology, &section(&[&proxy], &hints())).await?;
    until_published(&router, topology.servers().len()).await?;
    for (n, server) in topology.servers().iter().enumerate() {
        let hostgroup = BASE + 1 + u32::try_from(n)?;
        let mut expected = vec![server.port];
        if server.port != topology.source().port {
            expected.push(topology.source().port);
        }
        expected.sort_unstable();
        assert_eq!(online(&proxy, hostgroup).await?, expected);
    }
    let weights = proxy
        .admin_rows(&format!(
            "SELECT DISTINCT weight FROM runtime_mysql_servers WHERE hostgroup_id>{BASE} ORDER BY 1"
        ))
        .await?;
    assert_eq!(weights.len(), 2, "{weights:?}");
    router.stop().await;
    proxy.stop().await
}

/// The hung server answers nothing; whoever was sent there gets the source.
async fn answered_by(proxy: &ProxySql, hostgroup: u32) -> anyhow::Result<Option<String>> {
    let mut conn = through(proxy).await?;
    let answer = conn
        .query_first(format!("/* hostgroup={hostgroup} */ {WHO}"))
        .await?;
    conn.disconnect().await?;
    Ok(answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_replica_is_taken_out_and_the_source_answers() -> anyhow::Result<()> {
    let topology: &Topology = &*shared().await;
    let proxy = proxy(topology).await?;
    let router = router(topology, &section(&[&proxy], &hints())).await?;
    until_published(&router, topology.servers().len()).await?;
    let hung = topology.replica(0);
    let hostgroup = BASE + 2;
    assert_eq!(
        answered_by(&proxy, hostgroup).await?,
        Some(hung.port.to_string())
    );
    hung.pause()?;
    let paused = causeway::clock::now();
    until("the hung replica to be out", SOON, || async {
        let out = status(&proxy, hostgroup, hung).await? == "OFFLINE_SOFT";
        Ok(out.then_some(()))
    })
    .await?;
    let took = causeway::clock::now().since(paused);
    eprintln!("a hung replica was out after {took:?}");
    let answer = answered_by(&proxy, hostgroup).await;
    hung.resume()?;
    assert_eq!(answer?, Some(topology.source().port.to_string()));
    assert!(took.as_millis() < 4000, "it took {took:?}");
    router.stop().await;
    proxy.stop().await
}
