//! The GTID feed on real servers, read as ProxySQL reads it.

mod clients;
mod process;
mod stand_in;

use std::collections::BTreeMap;
use std::time::Duration;

use causeway::feed::{End, Feeds};
use causeway::router::Router;
use mysql_async::prelude::Queryable as _;

use crate::harness::{Topology, TopologySpec, shared};
use crate::support::{self, set};
use stand_in::StandIn;

/// Long enough to see that nothing is said, beside a pump that looks ten times
/// a second.
const A_WHILE: Duration = Duration::from_millis(500);

const ALL_THREE: &str =
    "[feed.listen]\ndb1 = \"127.0.0.1:0\"\ndb2 = \"127.0.0.1:0\"\ndb3 = \"127.0.0.1:0\"\n";
const REPLICA: &str = "[feed.listen]\ndb2 = \"127.0.0.1:0\"\n";

/// A router that knows all servers, and its feeds.
struct Fed {
    router: Router,
    feeds: Feeds,
}

impl Fed {
    async fn start(topology: &Topology, feeds: &str) -> anyhow::Result<Self> {
        let router = support::router(topology, feeds).await?;
        let config = support::config(topology, feeds);
        let feeds = Feeds::start(router.hub(), &config.feed).await?;
        Ok(Self { router, feeds })
    }

    async fn connect(&self, server: &str) -> anyhow::Result<StandIn> {
        let address = self.feeds.address(server).expect("it has a feed");
        StandIn::connect(address).await
    }

    fn ends(&self, server: &str, end: End) -> u64 {
        self.feeds.stats(server).expect("it has a feed").ends(end)
    }

    async fn stop(self) {
        self.feeds.stop().await;
        self.router.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_arrives_at_every_server_s_feed() -> anyhow::Result<()> {
    let topology = shared().await;
    let fed = Fed::start(&topology, ALL_THREE).await?;
    let mut peers = Vec::new();
    for server in topology.servers() {
        let mut peer = fed.connect(server.name()).await?;
        let first = peer.line().await?.expect("the whole set comes first");
        assert!(first.starts_with("ST="), "{first}");
        assert_eq!(peer.told, set(&server.executed().await?));
        peers.push(peer);
    }
    for n in 0..5 {
        let gtid = topology
            .source()
            .write(&format!("CREATE TABLE app.feed{n} (id INT PRIMARY KEY)"))
            .await?;
        for peer in &mut peers {
            let line = peer.until_told(&gtid).await?;
            let form = if n == 0 { "I1=" } else { "I2=" };
            assert!(line.starts_with(form), "{line}");
        }
    }
    let stats = fed.feeds.stats("db2").expect("it has a feed");
    assert_eq!(
        stats.connections.load(std::sync::atomic::Ordering::Relaxed),
        1
    );
    assert_eq!(stats.lines.load(std::sync::atomic::Ordering::Relaxed), 6);
    fed.stop().await;
    for peer in &mut peers {
        assert_eq!(peer.line().await?, None, "closed when it stops");
    }
    Ok(())
}

/// The pump would wait a minute between two looks, were nobody listening.
#[tokio::test(flavor = "multi_thread")]
async fn a_feed_is_told_at_once_however_slow_the_pump_is_set() -> anyhow::Result<()> {
    let topology = shared().await;
    let slow = format!("[observe]\npump_interval = \"60s\"\n{REPLICA}");
    let fed = Fed::start(&topology, &slow).await?;
    let mut peer = fed.connect("db2").await?;
    for n in 0..5 {
        let table = format!("CREATE TABLE app.prompt{n} (id INT PRIMARY KEY)");
        let gtid = topology.source().write(&table).await?;
        peer.until_told(&gtid).await?;
    }
    fed.stop().await;
    Ok(())
}

/// A server by itself, whose set has gaps, begins late, and has tags.
#[tokio::test(flavor = "multi_thread")]
async fn a_set_with_gaps_and_tags_is_told_as_what_it_is() -> anyhow::Result<()> {
    let topology = Topology::start(TopologySpec::new(0)).await?;
    let server = topology.source();
    let (u, v) = (
        "11111111-2222-3333-4444-555555555555",
        "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
    );
    server
        .execute_all(&[
            "RESET BINARY LOGS AND GTIDS",
            &format!("SET GLOBAL gtid_purged = '{u}:3-5:7-9:11:tagx:1-900,{v}:7'"),
        ])
        .await?;
    let feed = "[feed.listen]\ndb1 = \"127.0.0.1:0\"\n";
    let fed = Fed::start(&topology, feed).await?;
    let mut peer = fed.connect("db1").await?;
    assert_eq!(
        peer.line().await?.as_deref(),
        Some(format!("ST={u}:3-5,{u}:7-9,{u}:11-11,{v}:7-7").as_str())
    );
    for gtid in [
        format!("{u}:6"),
        format!("{v}:8"),
        format!("{u}:tagx:901"),
        format!("{u}:12"),
        format!("{u}:1"),
    ] {
        let next = format!("SET GTID_NEXT = '{gtid}'");
        server
            .execute_all(&[&next, "BEGIN", "COMMIT", "SET GTID_NEXT = AUTOMATIC"])
            .await?;
        if !gtid.contains("tagx") {
            peer.until_told(&gtid).await?;
        }
    }
    assert_eq!(peer.told, set(&format!("{u}:1:3-9:11-12,{v}:7-8")));
    fed.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_replica_s_connection_ends_and_the_next_has_only_the_new_set() -> anyhow::Result<()>
{
    let topology = Topology::start(TopologySpec::new(1)).await?;
    topology
        .source()
        .execute("CREATE TABLE app.t (id INT)")
        .await?;
    topology.wait_caught_up().await?;
    let fed = Fed::start(&topology, REPLICA).await?;
    let mut peer = fed.connect("db2").await?;
    peer.line().await?.expect("the whole set");
    let kept = topology.source().uuid();
    topology.reset_executed(0).await?;
    assert_eq!(peer.line().await?, None, "the old set is gone");
    assert_eq!(fed.ends("db2", End::NewEpoch), 1);
    let mut peer = fed.connect("db2").await?;
    assert_eq!(peer.line().await?.as_deref(), Some("ST="));
    topology
        .replica(0)
        .execute(&format!("SET GLOBAL gtid_purged = '{kept}:1'"))
        .await?;
    peer.until_told(&format!("{kept}:1")).await?;
    assert_eq!(peer.told, set(&format!("{kept}:1")));
    fed.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_server_s_connection_ends_and_the_next_is_held_until_it_is_back()
-> anyhow::Result<()> {
    let topology = shared().await;
    let fed = Fed::start(&topology, REPLICA).await?;
    let mut peer = fed.connect("db2").await?;
    peer.line().await?.expect("the whole set");
    topology.replica(0).stop().await?;
    assert_eq!(peer.line().await?, None, "unknown is not fresh");
    assert_eq!(fed.ends("db2", End::EvidenceLost), 1);
    let mut peer = fed.connect("db2").await?;
    assert!(
        peer.is_silent_for(A_WHILE).await,
        "nothing is said, and nothing closed"
    );
    topology.replica(0).restart().await?;
    let first = peer.line().await?.expect("the connection was held");
    assert!(first.starts_with("ST="), "{first}");
    assert_eq!(peer.told, set(&topology.replica(0).executed().await?));
    fed.stop().await;
    Ok(())
}

/// A server that hangs is lost too, though nothing is closed.
#[tokio::test(flavor = "multi_thread")]
async fn a_hung_server_s_connection_ends() -> anyhow::Result<()> {
    let topology = shared().await;
    let fed = Fed::start(&topology, REPLICA).await?;
    let mut peer = fed.connect("db2").await?;
    peer.line().await?.expect("the whole set");
    topology.replica(0).pause()?;
    let ended = peer.line().await;
    topology.replica(0).resume()?;
    assert_eq!(ended?, None);
    fed.stop().await;
    Ok(())
}

/// On this replica a transaction's events are there a second before its row. At
/// the moment a feed tells of it, the row must be.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_told_before_it_is_visible() -> anyhow::Result<()> {
    const ROWS: u32 = 10;
    const ROUNDS: i64 = 6;
    let topology = Topology::start(TopologySpec::new(1)).await?;
    crate::never::rows(&topology, ROWS).await?;
    let fed = Fed::start(&topology, REPLICA).await?;
    let replica = topology.replica(0);
    replica
        .execute_all(&[
            "SET GLOBAL sync_binlog = 0",
            "SET GLOBAL binlog_group_commit_sync_delay = 1000000",
        ])
        .await?;
    let mut peer = fed.connect("db2").await?;
    peer.line().await?.expect("the whole set");
    let mut reader = replica.conn().await?;
    let (mut looked, mut stale) = (0, Vec::new());
    for version in 1..=ROUNDS {
        let mut written = BTreeMap::new();
        for id in 1..=ROWS {
            let sql = format!("UPDATE app.t SET v = {version} WHERE id = {id}");
            written.insert(topology.source().write(&sql).await?, id);
        }
        while !written.is_empty() {
            let gtid = peer.told_next().await?;
            let id = written.remove(&gtid).expect("told after its write's OK");
            let seen: Option<i64> = reader
                .query_first(format!("SELECT v FROM app.t WHERE id = {id}"))
                .await?;
            looked += 1;
            if seen != Some(version) {
                stale.push(gtid);
            }
        }
    }
    let early = crate::never::events_before_rows(&topology, 3).await?;
    fed.stop().await;
    println!("{looked} looked at, {} not visible", stale.len());
    assert_eq!(looked, i64::from(ROWS) * ROUNDS);
    assert!(stale.is_empty(), "told before they showed: {stale:?}");
    assert_eq!(
        early, 3,
        "the trap is not set: events did not come before rows"
    );
    Ok(())
}
