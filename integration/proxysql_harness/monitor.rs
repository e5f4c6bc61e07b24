//! The monitor: it follows read_only and lag, at runtime only.

use crate::harness::{Admin, ProxySql, Server, Topology, shared, until};

use super::support::{SOON, client, code, set, set_status, who};

/// The hostgroups in which a server is at runtime, with its states there.
async fn places(admin: &mut Admin, server: &Server) -> anyhow::Result<Vec<(u32, String)>> {
    let sql = format!(
        "SELECT hostgroup_id, status FROM runtime_mysql_servers WHERE port = {} ORDER BY 1",
        server.port
    );
    let row = |row: Vec<Option<String>>| {
        let [Some(hostgroup), Some(status)] = &row[..] else {
            anyhow::bail!("{row:?}")
        };
        Ok((hostgroup.parse()?, status.clone()))
    };
    admin.rows(&sql).await?.into_iter().map(row).collect()
}

/// Waits until a server is in these hostgroups in these states, and no others.
async fn placed(proxy: &ProxySql, server: &Server, at: &[(u32, &str)]) -> anyhow::Result<()> {
    let at: Vec<(u32, String)> = at
        .iter()
        .map(|(group, status)| (*group, (*status).to_owned()))
        .collect();
    let arrived = until("the server's place", SOON, || async {
        let seen = places(&mut proxy.admin().await?, server).await?;
        Ok((seen == at).then_some(()))
    })
    .await;
    if arrived.is_err() {
        let seen = places(&mut proxy.admin().await?, server).await?;
        anyhow::bail!("{server} is at {seen:?} and not at {at:?}");
    }
    Ok(())
}

/// The source in 10; both replicas in 20, the pair's reader, and in 30, which
/// nobody looks after.
async fn monitored(topology: &Topology) -> anyhow::Result<ProxySql> {
    let (first, second) = (topology.replica(0), topology.replica(1));
    let rows = [
        (10, topology.source()),
        (20, first),
        (20, second),
        (30, first),
        (30, second),
    ];
    let proxy = ProxySql::start(&rows).await?;
    let pair = "INSERT INTO mysql_replication_hostgroups (writer_hostgroup, reader_hostgroup) \
                VALUES (10, 20)";
    proxy
        .admin_run(&[pair, "LOAD MYSQL SERVERS TO RUNTIME"])
        .await?;
    Ok(proxy)
}

const WRITABLE: &str = "SET GLOBAL read_only = OFF";
const READ_ONLY: &str = "SET GLOBAL super_read_only = ON";

#[tokio::test]
async fn the_monitor_moves_a_promoted_server_and_frees_it() -> anyhow::Result<()> {
    let topology = shared().await;
    let (first, second) = (topology.replica(0), topology.replica(1));
    let proxy = monitored(&topology).await?;
    let mut admin = proxy.admin().await?;
    let change = format!(
        "UPDATE mysql_servers SET status = 'SHUNNED', weight = 777, comment = 'kept' WHERE port = {}",
        first.port
    );
    admin.run(&change).await?;
    admin.run("LOAD MYSQL SERVERS TO RUNTIME").await?;
    let sums = "SELECT name, version FROM runtime_checksums_values \
                WHERE name LIKE 'mysql_servers%' ORDER BY name";
    let checksum = "SELECT checksum FROM runtime_checksums_values WHERE name = ";
    let runtime_sum = format!("{checksum}'mysql_servers'");
    let memory_sum = format!("{checksum}'mysql_servers_v2'");
    let (versions, before, memory) = (
        admin.rows(sums).await?,
        admin.text(&runtime_sum).await?,
        admin.text(&memory_sum).await?,
    );
    first.execute(WRITABLE).await?;
    placed(
        &proxy,
        first,
        &[(10, "ONLINE"), (20, "ONLINE"), (30, "SHUNNED")],
    )
    .await?;
    let writer = format!(
        "SELECT weight, comment FROM runtime_mysql_servers WHERE hostgroup_id = 10 AND port = {}",
        first.port
    );
    let kept = vec![Some("777".to_owned()), Some("kept".to_owned())];
    assert_eq!(admin.rows(&writer).await?, [kept]);
    placed(&proxy, second, &[(20, "ONLINE"), (30, "ONLINE")]).await?;
    // The tables in memory know nothing of it, and no LOAD was counted.
    let in_memory = format!(
        "SELECT COUNT(*) FROM mysql_servers WHERE port = {}",
        first.port
    );
    assert_eq!(admin.text(&in_memory).await?, "2");
    assert_eq!(admin.rows(sums).await?, versions);
    assert_ne!(admin.text(&runtime_sum).await?, before);
    assert_eq!(admin.text(&memory_sum).await?, memory);
    first.execute(READ_ONLY).await?;
    placed(&proxy, first, &[(20, "ONLINE"), (30, "SHUNNED")]).await
}

#[tokio::test]
async fn the_monitor_leaves_a_state_alone_while_read_only_stays() -> anyhow::Result<()> {
    let topology = shared().await;
    let (first, second) = (topology.replica(0), topology.replica(1));
    let proxy = monitored(&topology).await?;
    set_status(&proxy, first, "SHUNNED").await?;
    // The second one's way there and back shows that the monitor has looked.
    second.execute(WRITABLE).await?;
    placed(
        &proxy,
        second,
        &[(10, "ONLINE"), (20, "ONLINE"), (30, "ONLINE")],
    )
    .await?;
    second.execute(READ_ONLY).await?;
    placed(&proxy, second, &[(20, "ONLINE"), (30, "ONLINE")]).await?;
    placed(&proxy, first, &[(20, "SHUNNED"), (30, "SHUNNED")]).await?;
    placed(&proxy, topology.source(), &[(10, "ONLINE")]).await
}

#[tokio::test]
async fn an_offline_soft_server_is_not_promoted() -> anyhow::Result<()> {
    let topology = shared().await;
    let (first, second) = (topology.replica(0), topology.replica(1));
    let proxy = monitored(&topology).await?;
    set_status(&proxy, first, "OFFLINE_SOFT").await?;
    first.execute(WRITABLE).await?;
    second.execute(WRITABLE).await?;
    placed(
        &proxy,
        second,
        &[(10, "ONLINE"), (20, "ONLINE"), (30, "ONLINE")],
    )
    .await?;
    second.execute(READ_ONLY).await?;
    placed(&proxy, second, &[(20, "ONLINE"), (30, "ONLINE")]).await?;
    placed(&proxy, first, &[(20, "OFFLINE_SOFT"), (30, "OFFLINE_SOFT")]).await
}

#[tokio::test]
async fn a_load_from_stale_memory_undoes_a_promotion_for_a_while() -> anyhow::Result<()> {
    let topology = shared().await;
    let first = topology.replica(0);
    let proxy = monitored(&topology).await?;
    first.execute(WRITABLE).await?;
    let promoted = [(10, "ONLINE"), (20, "ONLINE"), (30, "ONLINE")];
    placed(&proxy, first, &promoted).await?;
    set(&proxy, "monitor_read_only_interval", "3000").await?;
    proxy.admin_run(&["LOAD MYSQL SERVERS TO RUNTIME"]).await?;
    let mut admin = proxy.admin().await?;
    // The monitor may be quick; what must not be is that it never comes back.
    let reverted = places(&mut admin, first).await?;
    assert!(reverted.len() == 2 || reverted.len() == 3, "{reverted:?}");
    placed(&proxy, first, &promoted).await?;
    admin.run("SAVE MYSQL SERVERS TO MEMORY").await?;
    admin.run("LOAD MYSQL SERVERS TO RUNTIME").await?;
    assert_eq!(places(&mut admin, first).await?.len(), 3);
    Ok(())
}

/// A replica in hostgroup 20 that may be 10 s late by what `app.heartbeat` says.
async fn with_heartbeat(topology: &Topology) -> anyhow::Result<ProxySql> {
    let beat = [
        "CREATE TABLE app.heartbeat (id INT PRIMARY KEY, ts VARCHAR(26) NOT NULL)",
        "INSERT INTO app.heartbeat VALUES (1, SYSDATE(6))",
        "GRANT SELECT ON app.heartbeat TO causeway",
    ];
    topology.source().execute_all(&beat).await?;
    topology.wait_caught_up().await?;
    let proxy = ProxySql::start(&[(20, topology.replica(0))]).await?;
    set(&proxy, "connect_timeout_server_max", "200").await?;
    set(
        &proxy,
        "monitor_replication_lag_use_percona_heartbeat",
        "app.heartbeat",
    )
    .await?;
    set(&proxy, "monitor_replication_lag_interval", "100").await?;
    proxy
        .admin_run(&[
            "UPDATE mysql_servers SET max_replication_lag = 10",
            "LOAD MYSQL SERVERS TO RUNTIME",
        ])
        .await?;
    Ok(proxy)
}

async fn in_pool(proxy: &ProxySql, status: &str) -> anyhow::Result<()> {
    until(&format!("{status} in the pool"), SOON, || async {
        let sql = "SELECT status FROM stats_mysql_connection_pool";
        let seen = proxy.admin().await?.text(sql).await?;
        Ok((seen == status).then_some(()))
    })
    .await
}

#[tokio::test]
async fn a_late_server_is_shunned_until_it_has_caught_up() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = with_heartbeat(&topology).await?;
    let replica = topology.replica(0);
    let mut conn = client(&proxy).await?;
    assert_eq!(who(&mut conn, "").await?, replica.port);
    let late = "UPDATE app.heartbeat SET ts = SYSDATE(6) - INTERVAL 1 HOUR";
    topology.source().execute(late).await?;
    in_pool(&proxy, "SHUNNED_REPLICATION_LAG").await?;
    placed(&proxy, replica, &[(20, "SHUNNED")]).await?;
    assert_eq!(code(who(&mut conn, "").await), 9001);
    // A LOAD does not free it, but one that takes its limit away does.
    proxy.admin_run(&["LOAD MYSQL SERVERS TO RUNTIME"]).await?;
    placed(&proxy, replica, &[(20, "SHUNNED")]).await?;
    let limit = |secs: u32| format!("UPDATE mysql_servers SET max_replication_lag = {secs}");
    proxy
        .admin_run(&[&limit(0), "LOAD MYSQL SERVERS TO RUNTIME"])
        .await?;
    placed(&proxy, replica, &[(20, "ONLINE")]).await?;
    proxy
        .admin_run(&[&limit(10), "LOAD MYSQL SERVERS TO RUNTIME"])
        .await?;
    in_pool(&proxy, "SHUNNED_REPLICATION_LAG").await?;
    let caught_up = "UPDATE app.heartbeat SET ts = SYSDATE(6)";
    topology.source().execute(caught_up).await?;
    in_pool(&proxy, "ONLINE").await?;
    assert_eq!(who(&mut conn, "").await?, replica.port);
    // The grant would outlive its table.
    let revoke = "REVOKE SELECT ON app.heartbeat FROM causeway";
    topology.source().execute(revoke).await
}
