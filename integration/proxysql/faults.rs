//! What goes wrong: hands, restarts, logins, several Causeways, gated queries.

use std::time::Duration;

use causeway::proxysql::Held;
use causeway::router::Router;
use std::sync::atomic::Ordering;

use super::hints::until_published;
use super::{
    BASE, READER, TIER, WRITER, hints, loads, online, proxy, router, section, status, tier,
    until_online,
};
use crate::harness::proxysql::{ADMIN, ProxySql};
use crate::harness::{Kind, shared, until};
use crate::support::SOON;

fn held(router: &Router, instance: usize) -> Option<&'static str> {
    let controller = router.proxysql().expect("it is configured");
    controller.stats[instance]
        .held
        .lock()
        .as_ref()
        .map(Held::kind)
}

async fn until_held(router: &Router, kind: &str) -> anyhow::Result<()> {
    until(
        &format!("a change to be held back: {kind}"),
        SOON,
        || async { Ok((held(router, 0) == Some(kind)).then_some(())) },
    )
    .await
}

fn counted(
    router: &Router,
    count: fn(&causeway::proxysql::controller::InstanceStats) -> &std::sync::atomic::AtomicU64,
) -> u64 {
    let controller = router.proxysql().expect("it is configured");
    count(&controller.stats[0]).load(Ordering::Relaxed)
}

async fn by_hand(proxy: &ProxySql, hostgroup: u32, port: u16) -> anyhow::Result<()> {
    let change = format!(
        "UPDATE mysql_servers SET status='OFFLINE_SOFT' WHERE hostgroup_id={hostgroup} AND port={port}"
    );
    proxy
        .admin_run(&[&change, "LOAD MYSQL SERVERS TO RUNTIME"])
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_by_hand_is_put_right() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = proxy(&topology).await?;
    let router = router(&topology, &section(&[&proxy], &tier(TIER, ""))).await?;
    let (one, two) = (topology.replica(0), topology.replica(1));
    until_online(&proxy, TIER, &[one, two]).await?;
    until("the change to be known as its own", SOON, || async {
        Ok((counted(&router, |stats| &stats.pending) == 0).then_some(()))
    })
    .await?;
    by_hand(&proxy, TIER, one.port).await?;
    until_online(&proxy, TIER, &[one, two]).await?;
    assert_eq!(counted(&router, |stats| &stats.by_hand), 1);
    router.stop().await;
    proxy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_by_hand_is_respected_when_so_configured() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = proxy(&topology).await?;
    let config = section(
        &[&proxy],
        &format!("by_hand = \"respect\"\n{}", tier(TIER, "")),
    );
    let router = router(&topology, &config).await?;
    let (one, two) = (topology.replica(0), topology.replica(1));
    until_online(&proxy, TIER, &[one, two]).await?;
    by_hand(&proxy, TIER, one.port).await?;
    until("the hand to be noticed", SOON, || async {
        Ok((counted(&router, |stats| &stats.respected) == 1).then_some(()))
    })
    .await?;
    assert_eq!(online(&proxy, TIER).await?, [two.port]);
    router.stop().await;
    proxy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_prepared_in_memory_is_not_brought_into_force() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = proxy(&topology).await?;
    let prepared = format!("UPDATE mysql_servers SET weight=77 WHERE hostgroup_id={READER}");
    proxy.admin_run(&[&prepared]).await?;
    let router = router(&topology, &section(&[&proxy], &hints())).await?;
    until_held(&router, "staged").await?;
    let weights =
        format!("SELECT DISTINCT weight FROM runtime_mysql_servers WHERE hostgroup_id={READER}");
    assert_eq!(proxy.admin_rows(&weights).await?, [[Some("1".to_owned())]]);
    // Once it is in force, the change that was held back follows.
    proxy.admin_run(&["LOAD MYSQL SERVERS TO RUNTIME"]).await?;
    until_published(&router, 3).await?;
    assert_eq!(proxy.admin_rows(&weights).await?, [[Some("77".to_owned())]]);
    router.stop().await;
    proxy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn with_gated_queries_nothing_is_loaded_where_that_can_deadlock() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = proxy(&topology).await?;
    let rule = format!(
        "INSERT INTO mysql_query_rules (rule_id, active, match_digest, destination_hostgroup, \
         gtid_from_hostgroup, apply) VALUES (7, 1, '^SELECT', {READER}, {WRITER}, 1)"
    );
    proxy
        .admin_run(&[&rule, "LOAD MYSQL QUERY RULES TO RUNTIME"])
        .await?;
    let before = loads(&proxy).await?;
    let router = router(&topology, &section(&[&proxy], &hints())).await?;
    until_held(&router, "gated").await?;
    assert_eq!(loads(&proxy).await?, before);
    let without = "DELETE FROM mysql_query_rules";
    proxy
        .admin_run(&[without, "LOAD MYSQL QUERY RULES TO RUNTIME"])
        .await?;
    until_published(&router, 3).await?;
    router.stop().await;
    proxy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn hints_outlive_a_restart_of_proxysql_and_the_end_of_causeway() -> anyhow::Result<()> {
    let topology = shared().await;
    let mut proxy = proxy(&topology).await?;
    let config = section(&[&proxy], &(hints() + &tier(TIER, "")));
    let router = router(&topology, &config).await?;
    until_published(&router, 3).await?;
    let (one, two) = (topology.replica(0), topology.replica(1));
    until_online(&proxy, TIER, &[one, two]).await?;
    until("the rows to be on disk", SOON, || async {
        let rows = proxy
            .admin_rows(&format!(
                "SELECT COUNT(*) FROM disk.mysql_servers WHERE hostgroup_id>{TIER}"
            ))
            .await?;
        Ok((rows == [[Some("5".to_owned())]]).then_some(()))
    })
    .await?;
    router.stop().await;
    proxy.restart().await?;
    until_online(&proxy, BASE + 2, &[one, topology.source()]).await?;
    until_online(&proxy, TIER, &[one, two]).await?;
    // ProxySQL's own coarse guard stands in for Causeway.
    let guards = format!(
        "SELECT DISTINCT max_replication_lag FROM runtime_mysql_servers WHERE hostgroup_id={TIER}"
    );
    assert_eq!(proxy.admin_rows(&guards).await?, [[Some("60".to_owned())]]);
    proxy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_is_seen_and_what_was_lost_comes_back() -> anyhow::Result<()> {
    let topology = shared().await;
    let mut proxy = proxy(&topology).await?;
    let config = section(
        &[&proxy],
        &format!("save_to_disk = false\n{}", tier(TIER, "")),
    );
    let router = router(&topology, &config).await?;
    let (one, two) = (topology.replica(0), topology.replica(1));
    until_online(&proxy, TIER, &[one, two]).await?;
    proxy.restart().await?;
    until_online(&proxy, TIER, &[one, two]).await?;
    assert_eq!(counted(&router, |stats| &stats.restarts), 1);
    router.stop().await;
    proxy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_login_and_a_dead_instance_delay_nobody_else() -> anyhow::Result<()> {
    let topology = shared().await;
    let (good, other) = (proxy(&topology).await?, proxy(&topology).await?);
    let (user, password) = ADMIN;
    let address = other.admin_address();
    // Another user than the good one's: both are tried with it, so the section
    // of the wrong login is its own Causeway.
    let wrong = format!(
        "\n[proxysql]\nuser = {user:?}\npassword = \"wrong\"\ninterval = \"100ms\"\n\
         instances = [{{ name = \"px0\", address = {address:?} }}]\n{}",
        hints()
    );
    let denied = router(&topology, &wrong).await?;
    until("the wrong login to be named", SOON, || async {
        let error = *denied.proxysql().expect("configured").stats[0].error.lock();
        Ok((error == Some("access_denied")).then_some(()))
    })
    .await?;
    denied.stop().await;
    other.stop().await?;
    let dead = format!(
        "\n[proxysql]\nuser = {user:?}\npassword = {password:?}\ninterval = \"100ms\"\n\
         instances = [{{ name = \"dead\", address = {address:?} }}, {{ name = \"good\", address = {:?} }}]\n{}",
        good.admin_address(),
        tier(TIER, "")
    );
    let router = router(&topology, &dead).await?;
    until_online(&good, TIER, &[topology.replica(0), topology.replica(1)]).await?;
    let error = *router.proxysql().expect("configured").stats[0].error.lock();
    assert_eq!(error, Some("unreachable"));
    router.stop().await;
    good.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_causeways_one_writes_and_the_other_takes_over() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = proxy(&topology).await?;
    let config = section(&[&proxy], &tier(TIER, ""));
    let (first, second) = (
        router(&topology, &config).await?,
        router(&topology, &config).await?,
    );
    let holds = |router: &Router| router.proxysql().expect("configured").holds_lease();
    until("one to hold the lease", SOON, || async {
        Ok((holds(&first) || holds(&second)).then_some(()))
    })
    .await?;
    until_online(&proxy, TIER, &[topology.replica(0), topology.replica(1)]).await?;
    assert!(holds(&first) != holds(&second), "one at a time");
    let (holder, other) = if holds(&first) {
        (first, second)
    } else {
        (second, first)
    };
    assert_eq!(counted(&other, |stats| &stats.loads), 0);
    holder.stop().await;
    let stopped = causeway::clock::now();
    until("the other to take over", SOON, || async {
        Ok(holds(&other).then_some(()))
    })
    .await?;
    let took = causeway::clock::now().since(stopped);
    eprintln!("the lease was handed over in {took:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    by_hand(&proxy, TIER, topology.replica(0).port).await?;
    until_online(&proxy, TIER, &[topology.replica(0), topology.replica(1)]).await?;
    assert_eq!(status(&proxy, READER, topology.replica(0)).await?, "ONLINE");
    other.stop().await;
    proxy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn with_mode_plan_nothing_is_changed() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = proxy(&topology).await?;
    let config = section(&[&proxy], &format!("mode = \"plan\"\n{}", hints()));
    let before = loads(&proxy).await?;
    let router = router(&topology, &config).await?;
    until_held(&router, "plan_only").await?;
    assert_eq!(counted(&router, |stats| &stats.pending), 5);
    assert_eq!(loads(&proxy).await?, before);
    router.stop().await;
    proxy.stop().await
}

/// Makes the nodes one ProxySQL Cluster.
async fn cluster(nodes: &[&ProxySql]) -> anyhow::Result<()> {
    let (user, password) = ADMIN;
    for node in nodes {
        let mut admin = node.admin().await?;
        for other in nodes {
            let address = other.admin_address();
            let (host, port) = address.rsplit_once(':').expect("host:port");
            let sql = "INSERT INTO proxysql_servers (hostname, port) VALUES";
            admin.run(&format!("{sql} ('{host}', {port})")).await?;
        }
        for (name, value) in [
            ("admin-cluster_username", user),
            ("admin-cluster_password", password),
            ("admin-cluster_check_interval_ms", "200"),
        ] {
            admin.run(&format!("SET {name} = '{value}'")).await?;
        }
        admin.run("LOAD ADMIN VARIABLES TO RUNTIME").await?;
        admin.run("LOAD PROXYSQL SERVERS TO RUNTIME").await?;
        admin.close().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_cluster_one_node_is_written_to_and_the_other_follows() -> anyhow::Result<()> {
    let topology = shared().await;
    let (one, two) = (proxy(&topology).await?, proxy(&topology).await?);
    if one.kind() == Kind::StandIn {
        eprintln!("not run: the stand-in knows no ProxySQL Cluster");
        return Ok(());
    }
    cluster(&[&one, &two]).await?;
    let config = section(&[&one, &two], &tier(TIER, ""));
    let router = router(&topology, &config).await?;
    let both = [topology.replica(0), topology.replica(1)];
    until_online(&one, TIER, &both).await?;
    until_online(&two, TIER, &both).await?;
    topology.stop_applier(0).await?;
    topology
        .source()
        .execute("CREATE TABLE app.later (id INT PRIMARY KEY)")
        .await?;
    until_online(&one, TIER, &[both[1]]).await?;
    until_online(&two, TIER, &[both[1]]).await?;
    let controller = router.proxysql().expect("configured");
    let written = |node: usize| controller.stats[node].loads.load(Ordering::Relaxed);
    assert!(
        written(0) >= 2 && written(1) == 0,
        "{} and {}",
        written(0),
        written(1)
    );
    router.stop().await;
    one.stop().await?;
    two.stop().await
}
