//! Routed reads on real servers: the promises, one by one.

use causeway::fleet::Role;
use causeway::route::{Consistency, OnTimeout, Reason};
use causeway::router::{Read, RouterError, Write};

use crate::harness::{Topology, TopologySpec, Tracked, shared};
use crate::support::{route, router, server, set, view_until, wrote};

async fn table(topology: &Topology) -> anyhow::Result<()> {
    topology
        .source()
        .execute("CREATE TABLE app.t (id INT PRIMARY KEY, v INT NOT NULL)")
        .await?;
    topology
        .source()
        .execute("INSERT INTO app.t VALUES (1, 0)")
        .await?;
    topology.wait_caught_up().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_reads_its_writes_mostly_off_the_source() -> anyhow::Result<()> {
    let topology = shared().await;
    table(&topology).await?;
    let router = router(&topology, "").await?;
    let mut tracked = Tracked::connect(topology.source())?;
    let (mut stale, mut off_source) = (0, 0);
    for version in 1..=200 {
        let gtid = tracked.write(&format!("UPDATE app.t SET v = {version} WHERE id = 1"))?;
        wrote(&router, "u1", &gtid).await?;
        let route = route(&router, "u1").await?;
        let seen: i32 = server(&topology, &route)
            .value("SELECT v FROM app.t WHERE id = 1")
            .await?;
        stale += i32::from(seen < version);
        off_source += i32::from(route.decision.role == Role::Replica);
    }
    router.stop().await;
    assert_eq!(stale, 0);
    assert!(
        off_source >= 150,
        "only {off_source} of 200 reads off the source"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_applier_sends_the_read_elsewhere() -> anyhow::Result<()> {
    let topology = shared().await;
    table(&topology).await?;
    let router = router(&topology, "").await?;
    topology.stop_applier(0).await?;
    let gtid = topology
        .source()
        .write("UPDATE app.t SET v = 5 WHERE id = 1")
        .await?;
    wrote(&router, "u1", &gtid).await?;
    for _ in 0..20 {
        let route = route(&router, "u1").await?;
        assert_ne!(route.info.name, topology.replica(0).name());
    }
    topology.stop_applier(1).await?;
    let gtid = topology
        .source()
        .write("UPDATE app.t SET v = 6 WHERE id = 1")
        .await?;
    wrote(&router, "u1", &gtid).await?;
    let route = route(&router, "u1").await?;
    assert_eq!(route.decision.role, Role::Source, "{route:?}");
    router.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_caller_chooses_what_follows_a_timeout() -> anyhow::Result<()> {
    let topology = shared().await;
    table(&topology).await?;
    let router = router(&topology, "").await?;
    topology.stop_applier(0).await?;
    topology.stop_applier(1).await?;
    let gtid = topology
        .source()
        .write("UPDATE app.t SET v = 5 WHERE id = 1")
        .await?;
    let read = |on_timeout| Read {
        token: Some(set(&gtid)),
        on_timeout: Some(on_timeout),
        ..Read::default()
    };
    let source = router.route(&read(OnTimeout::Source)).await?;
    assert_eq!(
        (source.decision.role, source.decision.degraded),
        (Role::Source, false)
    );
    let stale = router.route(&read(OnTimeout::Stale)).await?;
    assert_eq!(
        (
            stale.decision.role,
            stale.decision.degraded,
            stale.decision.reason
        ),
        (Role::Replica, true, Reason::StaleAllowed)
    );
    let error = router
        .route(&read(OnTimeout::Error))
        .await
        .expect_err("nobody can serve this");
    assert_eq!(
        error,
        RouterError::Failed(causeway::route::Failure::WaitTimeout)
    );
    router.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fenced_write_covers_everything_committed_before() -> anyhow::Result<()> {
    let topology = shared().await;
    table(&topology).await?;
    let router = router(&topology, "").await?;
    for version in 1..=50 {
        let gtid = topology
            .source()
            .write(&format!("UPDATE app.t SET v = {version} WHERE id = 1"))
            .await?;
        let token = router
            .wrote(&Write {
                session: Some("u1"),
                gtid: None,
            })
            .await?;
        assert!(token.contains_set(&set(&gtid)), "{token} lacks {gtid}");
        let route = route(&router, "u1").await?;
        let seen: i32 = server(&topology, &route)
            .value("SELECT v FROM app.t WHERE id = 1")
            .await?;
        assert!(
            seen >= version,
            "read {seen} after {version} from {}",
            route.info.name
        );
    }
    router.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn strong_reads_see_what_anybody_committed_before() -> anyhow::Result<()> {
    let topology = shared().await;
    table(&topology).await?;
    let router = router(&topology, "").await?;
    let mut off_source = 0;
    for version in 1..=100 {
        topology
            .source()
            .execute(&format!("UPDATE app.t SET v = {version} WHERE id = 1"))
            .await?;
        let read = Read {
            consistency: Some(Consistency::Strong),
            ..Read::default()
        };
        let route = router.route(&read).await?;
        let seen: i32 = server(&topology, &route)
            .value("SELECT v FROM app.t WHERE id = 1")
            .await?;
        assert!(
            seen >= version,
            "read {seen} after {version} from {}",
            route.info.name
        );
        off_source += i32::from(route.decision.role == Role::Replica);
    }
    router.stop().await;
    assert!(
        off_source >= 50,
        "only {off_source} of 100 strong reads off the source"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn bounded_reads_avoid_replicas_that_are_too_stale() -> anyhow::Result<()> {
    let topology = shared().await;
    table(&topology).await?;
    let router = router(&topology, "").await?;
    topology.stop_applier(0).await?;
    topology
        .source()
        .execute("UPDATE app.t SET v = 5 WHERE id = 1")
        .await?;
    let lagging = topology.replica(0).name().to_owned();
    view_until(&router, "the replica to be 300 ms stale", |view| {
        let server = view
            .servers
            .iter()
            .find(|server| server.info.name == lagging)
            .expect("it is in the fleet");
        server
            .staleness(causeway::clock::now())
            .is_some_and(|staleness| staleness.as_millis() > 300)
    })
    .await?;
    let bound = std::time::Duration::from_millis(250);
    for _ in 0..30 {
        let read = Read {
            consistency: Some(Consistency::Bounded),
            max_staleness: Some(bound),
            ..Read::default()
        };
        let route = router.route(&read).await?;
        assert_ne!(route.info.name, lagging);
        assert!(
            route
                .decision
                .staleness
                .is_some_and(|staleness| staleness <= bound),
            "{route:?}"
        );
    }
    router.stop().await;
    Ok(())
}

/// A transaction that only one replica has (a stray write there) must not keep
/// sessions that read there from ever leaving it.
#[tokio::test(flavor = "multi_thread")]
async fn an_errant_transaction_does_not_hold_a_session() -> anyhow::Result<()> {
    let topology = Topology::start(TopologySpec::new(1)).await?;
    table(&topology).await?;
    let replica = topology.replica(0);
    replica
        .execute_all(&[
            "SET GLOBAL super_read_only = OFF",
            "CREATE TABLE app.stray (id INT)",
            "SET GLOBAL super_read_only = ON",
        ])
        .await?;
    let router = router(&topology, "").await?;
    assert_eq!(route(&router, "u1").await?.info.name, replica.name());
    topology.stop_applier(0).await?;
    let gtid = topology
        .source()
        .write("UPDATE app.t SET v = 5 WHERE id = 1")
        .await?;
    wrote(&router, "u1", &gtid).await?;
    let route = route(&router, "u1").await?;
    assert_eq!(
        (route.decision.role, route.decision.degraded),
        (Role::Source, false),
        "{route:?}"
    );
    router.stop().await;
    Ok(())
}
