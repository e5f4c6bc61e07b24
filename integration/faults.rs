//! Servers that cannot be used: each fault is recognised and named, and the
//! other servers are not affected.

use std::sync::atomic::Ordering;

use causeway::check::{Level, check};
use causeway::config::Config;
use causeway::router::Router;

use crate::harness::{MariaDb, Topology, TopologySpec, shared};
use crate::support::{config, route, router, view_until, wrote};

/// A configuration of the topology's servers and one more.
fn config_with(
    topology: &Topology,
    name: &str,
    address: &str,
    user: &str,
    password: &str,
) -> Config {
    let mut config = config(topology, "");
    config.servers.push(causeway::fleet::ServerSpec {
        name: name.to_owned(),
        address: address.to_owned(),
        zone: None,
    });
    config.login.user = user.to_owned();
    config.login.password = password.to_owned();
    config
}

/// The state and the error of a server, once the router has named its fault.
async fn fault_of(router: &Router, name: &str, kind: &str) -> anyhow::Result<String> {
    let of = |view: &causeway::fleet::FleetView| {
        let server = view
            .servers
            .iter()
            .find(|server| server.info.name == name)
            .expect("it is in the fleet");
        server
            .fault()
            .filter(|fault| fault.kind() == kind)
            .map(ToString::to_string)
    };
    view_until(router, &format!("{name} to be {kind}"), |view| {
        of(view).is_some()
    })
    .await?;
    Ok(of(&router.view()).unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mariadb_and_a_dead_address_are_named_and_do_no_harm() -> anyhow::Result<()> {
    let topology = shared().await;
    let mariadb = MariaDb::start().await?;
    let mut config = config_with(
        &topology,
        "maria",
        &mariadb.address(),
        "causeway",
        "causeway-pw",
    );
    config.servers.push(causeway::fleet::ServerSpec {
        name: "dead".into(),
        address: "127.0.0.1:1".into(),
        zone: None,
    });
    let router = Router::start(&config);
    let error = fault_of(&router, "maria", "not_mysql").await?;
    assert!(error.contains("MariaDB"), "{error}");
    fault_of(&router, "dead", "unreachable").await?;
    view_until(&router, "the others to work", |view| {
        view.source().is_some() && view.servers[..3].iter().all(|server| server.usable)
    })
    .await?;
    let gtid = topology
        .source()
        .write("CREATE TABLE app.t (id INT PRIMARY KEY)")
        .await?;
    wrote(&router, "u1", &gtid).await?;
    route(&router, "u1").await?;
    router.stop().await;
    let report = check(&config).await;
    let finding = |name: &str| {
        report
            .findings
            .iter()
            .find(|finding| finding.subject == name)
            .expect("every server has a finding")
    };
    assert!(!report.passed);
    assert!(
        finding("maria").text.contains("not a MySQL server"),
        "{:?}",
        finding("maria")
    );
    assert!(
        finding("dead").text.contains("cannot reach"),
        "{:?}",
        finding("dead")
    );
    assert_eq!(finding("db1").level, Level::Good);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_and_a_missing_privilege_are_named() -> anyhow::Result<()> {
    let topology = shared().await;
    let mut config = config(&topology, "");
    config.login.password = "wrong".into();
    let router = Router::start(&config);
    fault_of(&router, "db1", "access_denied").await?;
    router.stop().await;
    let report = check(&config).await;
    assert!(
        report.findings[0]
            .mend
            .as_ref()
            .is_some_and(|mend| mend.contains("CREATE USER")),
        "{:?}",
        report.findings[0]
    );

    topology
        .source()
        .execute("CREATE USER poor@'%' IDENTIFIED BY 'poor-pw'")
        .await?;
    topology.wait_caught_up().await?;
    (config.login.user, config.login.password) = ("poor".into(), "poor-pw".into());
    let router = Router::start(&config);
    fault_of(&router, "db1", "missing_privilege").await?;
    router.stop().await;
    let report = check(&config).await;
    assert!(
        report.findings[0]
            .mend
            .as_ref()
            .is_some_and(|mend| mend.contains("GRANT REPLICATION CLIENT")),
        "{:?}",
        report.findings[0]
    );
    topology.source().execute("DROP USER poor@'%'").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn gtid_mode_off_is_named() -> anyhow::Result<()> {
    let topology = Topology::start(TopologySpec::new(0)).await?;
    let source = topology.source();
    source
        .execute_all(&[
            "SET GLOBAL gtid_mode = ON_PERMISSIVE",
            "SET GLOBAL gtid_mode = OFF_PERMISSIVE",
        ])
        .await?;
    let config = config(&topology, "");
    let router = Router::start(&config);
    let error = fault_of(&router, "db1", "gtid_mode_off").await?;
    assert!(error.contains("OFF_PERMISSIVE"), "{error}");
    source
        .execute_all(&[
            "SET GLOBAL gtid_mode = ON_PERMISSIVE",
            "SET GLOBAL gtid_mode = ON",
        ])
        .await?;
    view_until(&router, "the server to be usable", |view| {
        view.source().is_some()
    })
    .await?;
    router.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_topology_passes_the_check() -> anyhow::Result<()> {
    let topology = shared().await;
    let report = check(&config(&topology, "")).await;
    assert!(report.passed, "{:?}", report.findings);
    let fleet = report.findings.last().expect("there are findings");
    assert!(fleet.text.contains("the source is db1"), "{fleet:?}");
    topology.stop_applier(0).await?;
    let report = check(&config(&topology, "")).await;
    assert!(!report.passed);
    assert!(
        report
            .findings
            .iter()
            .any(|finding| finding.text.contains("applier is stopped")),
        "{:?}",
        report.findings
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_server_does_not_delay_the_others() -> anyhow::Result<()> {
    let topology = Topology::start(TopologySpec::new(2)).await?;
    topology
        .source()
        .execute("CREATE TABLE app.t (id INT PRIMARY KEY)")
        .await?;
    let router = router(&topology, "").await?;
    topology.replica(0).pause()?;
    for id in 1..=20 {
        let gtid = topology
            .source()
            .write(&format!("INSERT INTO app.t VALUES ({id})"))
            .await?;
        wrote(&router, "u1", &gtid).await?;
        let route = route(&router, "u1").await?;
        assert!(
            route.waited < std::time::Duration::from_millis(150),
            "{route:?}"
        );
    }
    topology.replica(0).resume()?;
    router.stop().await;
    Ok(())
}

/// A limit on connections costs Causeway a connection, not the evidence.
#[tokio::test(flavor = "multi_thread")]
async fn one_refused_connection_does_not_drop_the_evidence() -> anyhow::Result<()> {
    let topology = Topology::start(TopologySpec::new(0)).await?;
    let source = topology.source();
    source
        .execute("ALTER USER causeway WITH MAX_USER_CONNECTIONS 4")
        .await?;
    let router = router(&topology, "").await?;
    let stats = router.hub().stats(causeway::fleet::ServerIx(0));
    let refused = || stats.refused.load(Ordering::Relaxed);
    let losses = || stats.losses.load(Ordering::Relaxed);
    view_until(&router, "a refused connection", |_| refused() > 0).await?;
    let before = losses();
    view_until(&router, "more refused connections", |_| refused() > 4).await?;
    assert_eq!(losses(), before, "evidence was dropped");
    assert!(router.view().source().is_some());
    router.stop().await;
    Ok(())
}
