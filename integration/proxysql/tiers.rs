//! Tiers offer the replicas within their bound, and nothing is killed or undone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;

use super::{
    READER, TIER, WHO, WRITER, loads, monitored, online, proxy, router, section, status, tier,
    until_online,
};
use crate::harness::proxysql::ProxySql;
use crate::harness::{Topology, TopologySpec, shared, until};
use crate::support::SOON;

async fn table(topology: &Topology) -> anyhow::Result<()> {
    let source = topology.source();
    source
        .execute("CREATE TABLE app.t (id INT PRIMARY KEY, v INT NOT NULL)")
        .await?;
    source.execute("INSERT INTO app.t VALUES (1, 0)").await?;
    topology.wait_caught_up().await
}

/// The replica stops applying, and has something to apply.
async fn make_stale(topology: &Topology, replica: usize) -> anyhow::Result<()> {
    topology.stop_applier(replica).await?;
    topology
        .source()
        .execute("UPDATE app.t SET v = v + 1")
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_past_its_bound_leaves_its_tier_and_comes_back() -> anyhow::Result<()> {
    let topology = shared().await;
    table(&topology).await?;
    let proxy = proxy(&topology).await?;
    let router = router(&topology, &section(&[&proxy], &tier(TIER, ""))).await?;
    let (one, two) = (topology.replica(0), topology.replica(1));
    until_online(&proxy, TIER, &[one, two]).await?;
    make_stale(&topology, 0).await?;
    until_online(&proxy, TIER, &[two]).await?;
    assert_eq!(status(&proxy, TIER, one).await?, "OFFLINE_SOFT");
    topology.start_applier(0).await?;
    until_online(&proxy, TIER, &[one, two]).await?;
    // The administrator's own hostgroup was not touched.
    assert_eq!(online(&proxy, READER).await?.len(), 2);
    router.stop().await;
    proxy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_replica_within_the_bound_the_last_resort_answers() -> anyhow::Result<()> {
    let topology = shared().await;
    table(&topology).await?;
    let proxy = proxy(&topology).await?;
    let both = tier(TIER, "") + &tier(TIER + 1, "last_resort = \"least_stale\"");
    let router = router(&topology, &section(&[&proxy], &both)).await?;
    until_online(&proxy, TIER, &[topology.replica(0), topology.replica(1)]).await?;
    make_stale(&topology, 0).await?;
    topology.stop_applier(1).await?;
    topology
        .source()
        .execute("UPDATE app.t SET v = v + 1")
        .await?;
    until_online(&proxy, TIER, &[topology.source()]).await?;
    // The one that stopped later is the less stale one.
    until_online(&proxy, TIER + 1, &[topology.replica(1)]).await?;
    router.stop().await;
    proxy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn work_in_flight_outlives_a_freshness_change() -> anyhow::Result<()> {
    let topology = shared().await;
    table(&topology).await?;
    let proxy = monitored(&topology).await?;
    let config = section(&[&proxy], &(tier(TIER, "") + &tier(READER, "")));
    let router = router(&topology, &config).await?;
    let (one, two) = (topology.replica(0), topology.replica(1));
    for hostgroup in [TIER, READER] {
        until_online(&proxy, hostgroup, &[one, two]).await?;
    }
    let lock = format!("held_{}", one.port);
    for hostgroup in [TIER, READER] {
        // A query that runs until it is let go, on the replica that goes stale.
        let mut holder = one.conn().await?;
        holder
            .query_drop(format!("SELECT GET_LOCK('{lock}', 0)"))
            .await?;
        let mut conn = on_server(&proxy, hostgroup, one.port).await?;
        let waits = format!("/* hostgroup={hostgroup} */ SELECT GET_LOCK('{lock}', 60), @@port");
        let query = tokio::spawn(async move {
            let row: Option<(i32, u16)> = conn.query_first(waits).await?;
            anyhow::Ok(row)
        });
        until("the query to run", SOON, || async {
            let running: u64 = one
                .value(
                    "SELECT COUNT(*) FROM performance_schema.processlist WHERE state='User lock'",
                )
                .await?;
            Ok((running > 0).then_some(()))
        })
        .await?;
        make_stale(&topology, 0).await?;
        until_online(&proxy, hostgroup, &[two]).await?;
        holder
            .query_drop(format!("SELECT RELEASE_LOCK('{lock}')"))
            .await?;
        assert_eq!(query.await??, Some((1, one.port)), "hostgroup {hostgroup}");
        holder.disconnect().await?;
        topology.start_applier(0).await?;
        until_online(&proxy, hostgroup, &[one, two]).await?;
    }
    router.stop().await;
    proxy.stop().await
}

/// A connection inside a transaction on the server with this port.
async fn on_server(proxy: &ProxySql, hostgroup: u32, port: u16) -> anyhow::Result<Conn> {
    loop {
        let mut conn = Conn::new(proxy.traffic_opts("root")).await?;
        conn.query_drop(format!(
            "/* hostgroup={hostgroup} */ START TRANSACTION READ ONLY"
        ))
        .await?;
        let here: Option<String> = conn.query_first(WHO).await?;
        if here == Some(port.to_string()) {
            return Ok(conn);
        }
        conn.disconnect().await?;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promotion_by_the_monitor_is_not_undone() -> anyhow::Result<()> {
    let topology = Topology::start(TopologySpec::new(2)).await?;
    table(&topology).await?;
    let proxy = monitored(&topology).await?;
    let config = section(&[&proxy], &(super::hints() + &tier(READER, "")));
    let router = router(&topology, &config).await?;
    let (one, two) = (topology.replica(0), topology.replica(1));
    until_online(&proxy, READER, &[one, two]).await?;
    // The replica to be promoted is out of its tier, so that a wrong lever would
    // keep the monitor from seeing it.
    make_stale(&topology, 1).await?;
    until_online(&proxy, READER, &[one]).await?;
    assert_eq!(status(&proxy, READER, two).await?, "SHUNNED");
    topology.start_applier(1).await?;
    topology.wait_caught_up().await?;

    let watch = Watch::start(&proxy, two.port).await?;
    let old = topology.source();
    old.execute("SET GLOBAL read_only = ON").await?;
    topology.promote(1).await?;
    topology.follow(old).await?;
    until_online(&proxy, WRITER, &[two]).await?;
    // Changes afterwards bring the whole table into force again.
    let before = loads(&proxy).await?;
    until(
        "the other replica to follow, and its hints to change",
        SOON,
        || async { Ok((loads(&proxy).await? > before).then_some(())) },
    )
    .await?;
    until_online(&proxy, super::BASE + 2, &[one, two]).await?;
    assert_eq!(online(&proxy, WRITER).await?, [two.port]);
    assert_eq!(
        watch.stop().await?,
        0,
        "looks at which the promotion was undone"
    );
    router.stop().await;
    proxy.stop().await
}

/// Looks at the writer hostgroup all the time, and counts the looks at which the
/// promoted server was missing after it had been there.
struct Watch {
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<anyhow::Result<u64>>,
}

impl Watch {
    async fn start(proxy: &ProxySql, promoted: u16) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (mut admin, told) = (proxy.admin().await?, Arc::clone(&stop));
        let query = format!(
            "SELECT COUNT(*) FROM runtime_mysql_servers WHERE hostgroup_id={WRITER} \
             AND port={promoted} AND status='ONLINE'"
        );
        let task = tokio::spawn(async move {
            let (mut was_there, mut undone) = (false, 0);
            while !told.load(Ordering::Acquire) {
                let rows = admin.rows(&query).await?;
                let there = rows[0][0].as_deref() == Some("1");
                undone += u64::from(was_there && !there);
                was_there |= there;
            }
            Ok(undone)
        });
        Ok(Self { stop, task })
    }

    async fn stop(self) -> anyhow::Result<u64> {
        self.stop.store(true, Ordering::Release);
        self.task.await?
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_loaded_while_nothing_changes() -> anyhow::Result<()> {
    let topology = shared().await;
    table(&topology).await?;
    let proxy = monitored(&topology).await?;
    let config = section(
        &[&proxy],
        &(super::hints() + &tier(TIER, "") + &tier(READER, "")),
    );
    let router = router(&topology, &config).await?;
    until_online(&proxy, TIER, &[topology.replica(0), topology.replica(1)]).await?;
    super::hints::until_published(&router, 3).await?;
    let before = loads(&proxy).await?;
    for _ in 0..300 {
        topology
            .source()
            .execute("UPDATE app.t SET v = v + 1")
            .await?;
    }
    assert_eq!(loads(&proxy).await?, before);
    router.stop().await;
    proxy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_see_no_error_while_replicas_move_in_and_out() -> anyhow::Result<()> {
    let topology = shared().await;
    table(&topology).await?;
    let proxy = monitored(&topology).await?;
    let config = section(&[&proxy], &(tier(TIER, "") + &tier(READER, "")));
    let router = router(&topology, &config).await?;
    let (one, two) = (topology.replica(0), topology.replica(1));
    until_online(&proxy, TIER, &[one, two]).await?;
    let clients = Clients::start(&proxy, 8).await?;
    for round in 0..4 {
        let (moved, other) = if round % 2 == 0 { (0, two) } else { (1, one) };
        make_stale(&topology, moved).await?;
        until_online(&proxy, TIER, &[other]).await?;
        topology.start_applier(moved).await?;
        until_online(&proxy, TIER, &[one, two]).await?;
    }
    let (queries, errors) = clients.stop().await?;
    eprintln!(
        "{queries} queries of 8 clients over 8 moves: {} errors",
        errors.len()
    );
    assert!(queries > 100, "only {queries} queries");
    assert_eq!(errors, Vec::<String>::new());
    router.stop().await;
    proxy.stop().await
}

/// Clients that read from both tiers as fast as they can.
struct Clients {
    stop: Arc<AtomicBool>,
    queries: Arc<AtomicU64>,
    tasks: Vec<tokio::task::JoinHandle<Vec<String>>>,
}

impl Clients {
    async fn start(proxy: &ProxySql, count: usize) -> anyhow::Result<Self> {
        let (stop, queries) = (
            Arc::new(AtomicBool::new(false)),
            Arc::<AtomicU64>::default(),
        );
        let mut tasks = Vec::new();
        for _ in 0..count {
            let mut conn = Conn::new(proxy.traffic_opts("root")).await?;
            let (told, done) = (Arc::clone(&stop), Arc::clone(&queries));
            tasks.push(tokio::spawn(async move {
                let mut errors = Vec::new();
                while !told.load(Ordering::Acquire) {
                    for hostgroup in [TIER, READER] {
                        let query = format!("/* hostgroup={hostgroup} */ SELECT v FROM app.t");
                        let read: Result<Option<i32>, _> = conn.query_first(query).await;
                        if let Err(error) = read {
                            errors.push(error.to_string());
                        }
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                }
                errors
            }));
        }
        Ok(Self {
            stop,
            queries,
            tasks,
        })
    }

    async fn stop(self) -> anyhow::Result<(u64, Vec<String>)> {
        self.stop.store(true, Ordering::Release);
        let mut errors = Vec::new();
        for task in self.tasks {
            errors.extend(tokio::time::timeout(Duration::from_secs(60), task).await??);
        }
        Ok((self.queries.load(Ordering::Relaxed), errors))
    }
}
