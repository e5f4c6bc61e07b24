//! What must never happen, each made to happen if the guard were missing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use causeway::fleet::Role;
use causeway::route::{Consistency, OnTimeout, Reason};
use causeway::router::{Read, Route, Router};

use crate::harness::{Server, Topology, TopologySpec, Tracked, shared, until};
use crate::support::{SOON, route, router, server, set, view_until, wrote};

/// The replica of a router's view by its name.
fn is(name: &str) -> impl Fn(&&causeway::fleet::ServerView) -> bool {
    move |server| server.info.name == name
}

async fn value(server: &Server, id: u32) -> anyhow::Result<i64> {
    server
        .value(&format!(
            "SELECT COALESCE((SELECT v FROM app.t WHERE id = {id}), 0)"
        ))
        .await
}

pub(crate) async fn rows(topology: &Topology, count: u32) -> anyhow::Result<()> {
    topology
        .source()
        .execute("CREATE TABLE app.t (id INT PRIMARY KEY, v BIGINT NOT NULL)")
        .await?;
    for id in 1..=count {
        topology
            .source()
            .execute(&format!("INSERT INTO app.t VALUES ({id}, 0)"))
            .await?;
    }
    topology.wait_caught_up().await
}

/// A read that must go to a replica, however long it takes.
async fn replica_read(router: &Router, session: &str) -> anyhow::Result<Route> {
    let read = Read {
        session: Some(session),
        on_timeout: Some(OnTimeout::Error),
        max_wait: Some(Duration::from_secs(10)),
        ..Read::default()
    };
    Ok(router.route(&read).await?)
}

/// MySQL shows a transaction's events before its rows. With a slow group commit
/// on the replica the gap is a second: a router fed by binlog events would serve
/// every one of these reads stale.
#[tokio::test(flavor = "multi_thread")]
async fn no_read_before_visibility() -> anyhow::Result<()> {
    let topology = Topology::start(TopologySpec::new(1)).await?;
    rows(&topology, 10).await?;
    let replica = topology.replica(0);
    let router = router(&topology, "").await?;
    replica
        .execute_all(&[
            "SET GLOBAL sync_binlog = 0",
            "SET GLOBAL binlog_group_commit_sync_delay = 1000000",
        ])
        .await?;
    let mut reads = 0;
    for version in 1..=6 {
        let sessions = (1..=10_u32).map(|id| one_visible_read(&topology, &router, id, version));
        for seen in futures_util::future::join_all(sessions).await {
            assert!(seen? >= version, "a stale read at version {version}");
            reads += 1;
        }
    }
    let early = events_before_rows(&topology, 3).await?;
    router.stop().await;
    assert!(reads >= 50);
    assert_eq!(
        early, 3,
        "the trap is not set: events did not come before rows"
    );
    Ok(())
}

async fn one_visible_read(
    topology: &Topology,
    router: &Router,
    id: u32,
    version: i64,
) -> anyhow::Result<i64> {
    let session = format!("u{id}");
    let gtid = topology
        .source()
        .write(&format!("UPDATE app.t SET v = {version} WHERE id = {id}"))
        .await?;
    wrote(router, &session, &gtid).await?;
    let route = replica_read(router, &session).await?;
    assert_eq!(route.decision.role, Role::Replica);
    value(server(topology, &route), id).await
}

/// How often a read right after the event in the replica's binary log misses the
/// row: what a router fed by events would do.
pub(crate) async fn events_before_rows(topology: &Topology, writes: i64) -> anyhow::Result<usize> {
    let replica = topology.replica(0);
    let mut early = 0;
    for version in 101..101 + writes {
        let gtid = topology
            .source()
            .write(&format!("UPDATE app.t SET v = {version} WHERE id = 1"))
            .await?;
        until("the event in the replica's binary log", SOON, || async {
            let (file, position): (String, u64) = replica
                .query::<(String, u64, String, String, String)>("SHOW BINARY LOG STATUS")
                .await
                .map(|rows| (rows[0].0.clone(), rows[0].1))?;
            let _end = position;
            let events: Vec<mysql_async::Row> = replica
                .query(&format!("SHOW BINLOG EVENTS IN '{file}'"))
                .await?;
            let found = events.iter().any(|row| {
                row.get::<String, _>("Info")
                    .is_some_and(|info| info.contains(&gtid))
            });
            Ok(found.then_some(()))
        })
        .await?;
        early += usize::from(value(replica, 1).await? < version);
    }
    Ok(early)
}

/// A replica that applies out of order has gaps: the newest number says nothing
/// about the ones before it.
#[tokio::test(flavor = "multi_thread")]
async fn never_max_gno_on_a_replica_with_gaps() -> anyhow::Result<()> {
    let spec = TopologySpec::new(1).option_of(1, "replica_preserve_commit_order=OFF");
    let topology = Topology::start(spec).await?;
    rows(&topology, 9).await?;
    let router = router(&topology, "").await?;
    let replica = topology.replica(0);
    let mut lock = replica.conn().await?;
    lock_rows(&mut lock, "id = 1").await?;
    let blocked = topology
        .source()
        .write("UPDATE app.t SET v = 1 WHERE id = 1")
        .await?;
    wrote(&router, "blocked", &blocked).await?;
    for id in 2..=9 {
        let later = topology
            .source()
            .write(&format!("UPDATE app.t SET v = 1 WHERE id = {id}"))
            .await?;
        wrote(&router, "later", &later).await?;
        // Visible out of order, and told so promptly although the first waits.
        let route = replica_read(&router, "later").await?;
        assert_eq!(value(server(&topology, &route), id).await?, 1);
        let first = crate::support::route(&router, "blocked").await?;
        assert_eq!(
            first.decision.role,
            Role::Source,
            "{:?} while its write is locked on the replica",
            first.decision
        );
    }
    drop(lock);
    let route = replica_read(&router, "blocked").await?;
    assert_eq!(value(server(&topology, &route), 1).await?, 1);
    router.stop().await;
    Ok(())
}

async fn lock_rows(conn: &mut mysql_async::Conn, which: &str) -> anyhow::Result<()> {
    use mysql_async::prelude::Queryable;
    // A read-only server lets an administrator lock rows, a super-read-only one
    // does not.
    conn.query_drop("SET GLOBAL super_read_only = OFF").await?;
    conn.query_drop("BEGIN").await?;
    conn.query_drop(format!("SELECT * FROM app.t WHERE {which} FOR UPDATE"))
        .await?;
    Ok(())
}

/// Both sessions wait at once, the one for a transaction that takes long, on
/// every barrier there is; the other must still be told promptly.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_gtid_commits_out_of_order_is_woken_promptly() -> anyhow::Result<()> {
    let spec = TopologySpec::new(1).option_of(1, "replica_preserve_commit_order=OFF");
    let topology = Topology::start(spec).await?;
    rows(&topology, 8).await?;
    // The pump must not come to the rescue.
    let router = router(&topology, "[observe]\nreplica_heartbeat = \"10s\"\n").await?;
    let mut lock = topology.replica(0).conn().await?;
    lock_rows(&mut lock, "id <= 3").await?;
    let mut blocked = Vec::new();
    for id in 1..=3 {
        let gtid = topology
            .source()
            .write(&format!("UPDATE app.t SET v = 1 WHERE id = {id}"))
            .await?;
        wrote(&router, &format!("b{id}"), &gtid).await?;
        let router = router.clone();
        blocked.push(tokio::spawn(async move {
            replica_read(&router, &format!("b{id}")).await
        }));
    }
    view_until(&router, "all three to wait", |view| {
        let replica = view
            .servers
            .iter()
            .find(|server| server.role == Role::Replica)
            .expect("there is one");
        router.hub().waiting(replica.ix) == 3
    })
    .await?;
    let gtid = topology
        .source()
        .write("UPDATE app.t SET v = 1 WHERE id = 8")
        .await?;
    wrote(&router, "free", &gtid).await?;
    let read = Read {
        session: Some("free"),
        on_timeout: Some(OnTimeout::Error),
        max_wait: Some(Duration::from_millis(500)),
        ..Read::default()
    };
    let route = router.route(&read).await?;
    assert_eq!(value(server(&topology, &route), 8).await?, 1);
    drop(lock);
    for wait in blocked {
        assert_eq!(wait.await??.decision.role, Role::Replica);
    }
    router.stop().await;
    Ok(())
}

/// After `RESET BINARY LOGS AND GTIDS` or a rebuild a replica has another
/// history; merged with the old one it would look fresh for what it lost.
#[tokio::test(flavor = "multi_thread")]
async fn evidence_is_replaced_not_merged_after_a_reset_or_rebuild() -> anyhow::Result<()> {
    let topology = Topology::start(TopologySpec::new(2)).await?;
    rows(&topology, 1).await?;
    let router = router(&topology, "").await?;
    let gtid = topology
        .source()
        .write("UPDATE app.t SET v = 7 WHERE id = 1")
        .await?;
    wrote(&router, "u1", &gtid).await?;
    topology.wait_caught_up().await?;
    let name = topology.replica(0).name().to_owned();
    topology.stop_applier(0).await?;
    topology.reset_executed(0).await?;
    view_until(&router, "the reset to be seen", |view| {
        view.servers
            .iter()
            .find(is(&name))
            .is_some_and(|server| server.epoch() == 2)
    })
    .await?;
    let view = router.view();
    let reset = view
        .servers
        .iter()
        .find(is(&name))
        .expect("it is in the fleet");
    assert!(
        !reset
            .executed()
            .is_some_and(|executed| executed.contains_set(&set(&gtid))),
        "evidence was merged"
    );
    for _ in 0..20 {
        let read = Read {
            token: Some(set(&gtid)),
            ..Read::default()
        };
        assert_ne!(router.route(&read).await?.info.name, name);
        assert_ne!(
            route(&router, "somebody new").await?.info.name,
            name,
            "below the floor"
        );
    }
    topology.rebuild(0).await?;
    let rebuilt = topology.replica(0).name().to_owned();
    view_until(
        &router,
        "the rebuilt replica to be a new epoch and caught up",
        |view| {
            view.servers
                .iter()
                .find(is(&rebuilt))
                .is_some_and(|server| server.epoch() >= 3 && server.usable && server.covers_floor)
        },
    )
    .await?;
    until("a read to go to the rebuilt replica", SOON, || async {
        let read = Read {
            token: Some(set(&gtid)),
            ..Read::default()
        };
        let route = router.route(&read).await?;
        assert_eq!(value(server(&topology, &route), 1).await?, 7);
        Ok((route.info.name == rebuilt).then_some(()))
    })
    .await?;
    router.stop().await;
    Ok(())
}

/// A server whose connection is lost has no evidence, whatever it said before.
#[tokio::test(flavor = "multi_thread")]
async fn no_read_is_sent_to_a_server_whose_connection_is_lost() -> anyhow::Result<()> {
    let topology = Topology::start(TopologySpec::new(2)).await?;
    rows(&topology, 1).await?;
    let router = router(&topology, "").await?;
    let dead = topology.replica(0).name().to_owned();
    topology.replica(0).kill().await?;
    view_until(&router, "the loss to be seen", |view| {
        view.servers
            .iter()
            .find(is(&dead))
            .is_some_and(|server| !server.usable)
    })
    .await?;
    let hung = topology.replica(1).name().to_owned();
    topology.replica(1).pause()?;
    view_until(&router, "the hung replica to be out", |view| {
        view.servers
            .iter()
            .find(is(&hung))
            .is_some_and(|server| !server.usable)
    })
    .await?;
    for _ in 0..20 {
        let read = Read {
            consistency: Some(Consistency::Eventual),
            ..Read::default()
        };
        let route = router.route(&read).await?;
        assert_eq!(
            (route.decision.role, route.decision.reason),
            (Role::Source, Reason::SourceNoReplica)
        );
    }
    topology.replica(1).resume()?;
    topology.replica(0).restart().await?;
    view_until(&router, "both to be back", |view| {
        view.servers
            .iter()
            .all(|server| server.usable && server.covers_floor)
    })
    .await?;
    let view = router.view();
    let epochs: Vec<u32> = view
        .servers
        .iter()
        .map(causeway::fleet::ServerView::epoch)
        .collect();
    assert_eq!(epochs, [1, 1, 1], "the same history goes on");
    router.stop().await;
    Ok(())
}

/// Without a source there is a clear error, and replicas still serve what they
/// have.
#[tokio::test(flavor = "multi_thread")]
async fn no_source_is_an_error_not_a_guess() -> anyhow::Result<()> {
    let topology = Topology::start(TopologySpec::new(1)).await?;
    rows(&topology, 1).await?;
    let router = router(&topology, "").await?;
    let gtid = topology
        .source()
        .write("UPDATE app.t SET v = 7 WHERE id = 1")
        .await?;
    wrote(&router, "u1", &gtid).await?;
    topology.wait_caught_up().await?;
    topology.source().kill().await?;
    view_until(&router, "the source to be gone", |view| {
        view.source().is_none()
    })
    .await?;
    let strong = Read {
        consistency: Some(Consistency::Strong),
        ..Read::default()
    };
    let error = router
        .route(&strong)
        .await
        .expect_err("nobody can promise this")
        .to_string();
    assert!(error.contains("source"), "{error}");
    let served = replica_read(&router, "u1").await?;
    assert_eq!(value(server(&topology, &served), 1).await?, 7);
    topology
        .replica(0)
        .execute("SET GLOBAL read_only = OFF")
        .await?;
    let error = router
        .route(&strong)
        .await
        .expect_err("a writable replica is no source")
        .to_string();
    assert!(error.contains("source"), "{error}");
    router.stop().await;
    Ok(())
}

/// Two servers that accept writes: which one is right cannot be known.
#[tokio::test(flavor = "multi_thread")]
async fn an_ambiguous_source_is_named() -> anyhow::Result<()> {
    let topology = shared().await;
    rows(&topology, 1).await?;
    let router = router(&topology, "").await?;
    topology
        .replica(0)
        .execute_all(&[
            "STOP REPLICA",
            "RESET REPLICA ALL",
            "SET GLOBAL super_read_only = OFF",
            "SET GLOBAL read_only = OFF",
        ])
        .await?;
    view_until(&router, "the ambiguity to be seen", |view| {
        view.source.is_err()
    })
    .await?;
    let error = router
        .view()
        .source
        .clone()
        .expect_err("two are writable")
        .to_string();
    assert!(
        error.contains("db1") && error.contains("db2") && error.contains("ambiguous"),
        "{error}"
    );
    router.stop().await;
    Ok(())
}

/// A token that the source can never satisfy is reported and not waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_write_is_reported_and_rebased() -> anyhow::Result<()> {
    let topology = shared().await;
    rows(&topology, 1).await?;
    let router = router(&topology, "").await?;
    let gtid = topology
        .source()
        .write("UPDATE app.t SET v = 7 WHERE id = 1")
        .await?;
    let gone = format!("{}:999999", topology.source().uuid());
    wrote(&router, "u1", &format!("{gtid},{gone}")).await?;
    let read = Read {
        session: Some("u1"),
        max_wait: Some(Duration::from_secs(10)),
        ..Read::default()
    };
    let route = tokio::time::timeout(Duration::from_secs(5), router.route(&read)).await??;
    assert_eq!(route.decision.reason, Reason::SourceWriteLost);
    assert_eq!(route.decision.lost, Some(set(&gone)));
    let again = router.route(&read).await?;
    assert_eq!(again.decision.lost, None, "rebased: {again:?}");
    router.stop().await;
    Ok(())
}

/// Monotonic reads while replicas differ: one shows rows a moment before it
/// lists their GTIDs, and the session is moved between replicas all the time.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_never_reads_backwards() -> anyhow::Result<()> {
    let topology = shared().await;
    rows(&topology, 1).await?;
    let router = router(&topology, "").await?;
    topology
        .replica(0)
        .execute_all(&[
            "SET GLOBAL sync_binlog = 0",
            "SET GLOBAL binlog_group_commit_sync_delay = 20000",
        ])
        .await?;
    let stop = AtomicBool::new(false);
    let mut tracked = Tracked::connect(topology.source())?;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for version in 1.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let update = format!("UPDATE app.t SET v = {version} WHERE id = 1");
                tracked.write(&update).expect("the source takes writes");
            }
        });
        // Also when a read goes back and panics: the writer must end.
        let _stop = StopOnDrop(&stop);
        let reads = read_forwards(&topology, &router, 400);
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(reads))
    })?;
    router.stop().await;
    Ok(())
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

async fn read_forwards(topology: &Topology, router: &Router, reads: usize) -> anyhow::Result<()> {
    use mysql_async::prelude::Queryable;
    let mut conns = std::collections::HashMap::new();
    for server in topology.servers() {
        conns.insert(server.name().to_owned(), server.conn().await?);
    }
    let (mut newest, mut used) = (0, std::collections::BTreeSet::new());
    for n in 0..reads {
        // A bound on staleness now and then makes the session leave its replica.
        let bound = (n % 4 == 3).then_some(Duration::from_millis(5));
        let read = Read {
            session: Some("reader"),
            consistency: Some(Consistency::Session),
            max_staleness: bound,
            ..Read::default()
        };
        let routed = router.route(&read).await?;
        let conn = conns
            .get_mut(&routed.info.name)
            .expect("every server has a connection");
        let seen: i64 = conn
            .query_first("SELECT v FROM app.t WHERE id = 1")
            .await?
            .expect("the row exists");
        assert!(
            seen >= newest,
            "read {n} went back from {newest} to {seen} on {}",
            routed.info.name
        );
        newest = seen;
        used.insert(routed.info.name.clone());
    }
    assert!(used.len() > 1, "the session never moved: {used:?}");
    Ok(())
}
