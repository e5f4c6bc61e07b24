//! What was measured of ProxySQL 2.7.1, as tests that hold of the real one and
//! of the stand-in alike, so that a test against the stand-in means something.

use mysql_async::{Conn, Error};

use crate::harness::{Admin, ProxySql, Server, shared};

/// The number of a server's error.
fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> u16 {
    match result {
        Err(Error::Server(error)) => error.code,
        other => panic!("no error of the server: {other:?}"),
    }
}

fn row(cells: &[&str]) -> Vec<Option<String>> {
    cells.iter().map(|cell| Some((*cell).to_owned())).collect()
}

async fn runtime_status(
    admin: &mut Admin,
    hostgroup: u32,
    server: &Server,
) -> anyhow::Result<String> {
    let sql = format!(
        "SELECT status FROM runtime_mysql_servers WHERE hostgroup_id = {hostgroup} AND port = {}",
        server.port
    );
    let rows = admin.rows(&sql).await?;
    Ok(rows
        .into_iter()
        .flatten()
        .flatten()
        .next()
        .unwrap_or_default())
}

async fn version_of(admin: &mut Admin, name: &str) -> anyhow::Result<(u64, String)> {
    let sql =
        format!("SELECT version, checksum FROM runtime_checksums_values WHERE name = '{name}'");
    let rows = admin.rows(&sql).await?;
    let [Some(version), Some(checksum)] = &rows[0][..] else {
        panic!("two columns: {rows:?}")
    };
    Ok((version.parse()?, checksum.clone()))
}

#[tokio::test]
async fn admin_runs_only_the_first_statement_of_a_query() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = ProxySql::start(&[(10, topology.source())]).await?;
    let mut admin = proxy.admin().await?;
    let both = "UPDATE mysql_servers SET weight = 7; LOAD MYSQL SERVERS TO RUNTIME";
    assert_eq!(admin.run(both).await?, 1);
    let weight = "SELECT weight FROM runtime_mysql_servers";
    assert_eq!(admin.text(weight).await?, "1");
    admin
        .run("UPDATE mysql_servers SET weight = 8; no SQL at all")
        .await?;
    assert_eq!(admin.text("SELECT weight FROM mysql_servers").await?, "8");
    admin.run("LOAD MYSQL SERVERS TO RUNTIME;").await?;
    assert_eq!(admin.text(weight).await?, "8");
    Ok(())
}

#[tokio::test]
async fn admin_ignores_transactions() -> anyhow::Result<()> {
    let proxy = ProxySql::start_empty().await?;
    let (mut one, mut other) = (proxy.admin().await?, proxy.admin().await?);
    one.run("BEGIN").await?;
    one.run("INSERT INTO mysql_servers (hostname) VALUES ('127.0.0.9')")
        .await?;
    let count = "SELECT COUNT(*) FROM mysql_servers";
    assert_eq!(other.text(count).await?, "1");
    one.run("ROLLBACK").await?;
    assert_eq!(other.text(count).await?, "1");
    one.run("COMMIT").await?;
    Ok(())
}

#[tokio::test]
async fn admin_answers_wrong_statements_and_rows_with_1045() -> anyhow::Result<()> {
    let proxy = ProxySql::start_empty().await?;
    let mut admin = proxy.admin().await?;
    for sql in [
        "/* why */ LOAD MYSQL SERVERS TO RUNTIME",
        "INSERT INTO mysql_servers (hostname, weight) VALUES ('a', 10000001)",
        "INSERT INTO mysql_servers (hostname, status) VALUES ('a', 'AWAY')",
        "INSERT INTO mysql_servers (hostname, port, gtid_port) VALUES ('a', 3306, 3306)",
        "INSERT INTO mysql_replication_hostgroups VALUES (1, 1, 'read_only', '')",
        "INSERT INTO mysql_replication_hostgroups VALUES (1, 2, 'guess', '')",
        "SELECT nothing FROM nowhere",
        "gibberish",
    ] {
        assert_eq!(code(admin.try_run(sql).await), 1045, "{sql}");
    }
    admin
        .run("/* why */ INSERT INTO mysql_servers (hostname) VALUES ('a')")
        .await?;
    let again = "INSERT INTO mysql_servers (hostname) VALUES ('a')";
    assert_eq!(code(admin.try_run(again).await), 1045);
    Ok(())
}

#[tokio::test]
async fn admin_counts_the_rows_that_a_statement_changed() -> anyhow::Result<()> {
    let proxy = ProxySql::start_empty().await?;
    let mut admin = proxy.admin().await?;
    let three =
        "INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES (1,'a'), (2,'a'), (3,'b')";
    assert_eq!(admin.run(three).await?, 3);
    let two = "UPDATE mysql_servers SET weight = 5 WHERE hostname = 'a'";
    assert_eq!(admin.run(two).await?, 2);
    let none = "UPDATE mysql_servers SET weight = 5 WHERE hostname = 'c'";
    assert_eq!(admin.run(none).await?, 0);
    let replaced =
        "REPLACE INTO mysql_servers (hostgroup_id, hostname, comment) VALUES (1,'a','x')";
    assert_eq!(admin.run(replaced).await?, 1);
    let upsert = "INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES (2, 'a') \
                  ON CONFLICT (hostgroup_id, hostname, port) DO UPDATE SET weight = 9";
    assert_eq!(admin.run(upsert).await?, 1);
    assert_eq!(admin.run("DELETE FROM mysql_servers").await?, 3);
    Ok(())
}

#[tokio::test]
async fn admin_tells_its_version_and_uptime() -> anyhow::Result<()> {
    let proxy = ProxySql::start_empty().await?;
    let mut admin = proxy.admin().await?;
    for sql in ["SELECT @@version", "SELECT version()"] {
        let version = admin.text(sql).await?;
        assert!(version.starts_with("2.7.1-"), "{version}");
    }
    let uptime = "SELECT Variable_Value FROM stats_mysql_global \
                  WHERE Variable_Name = 'ProxySQL_Uptime'";
    assert!(admin.text(uptime).await?.parse::<u64>()? < 60);
    for sql in ["PROXYSQL VERSION", "SHOW PROXYSQL STATUS"] {
        assert_eq!(code(admin.try_run(sql).await), 1045, "{sql}");
    }
    Ok(())
}

#[tokio::test]
async fn a_wrong_password_is_access_denied() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = ProxySql::start(&[(10, topology.source())]).await?;
    let wrong = |address: &str, user: &str| {
        let (host, port) = address.rsplit_once(':').expect("host:port");
        mysql_async::OptsBuilder::default()
            .ip_or_hostname(host)
            .tcp_port(port.parse().expect("a port"))
            .prefer_socket(false)
            .user(Some(user))
            .pass(Some("wrong"))
    };
    for opts in [
        wrong(&proxy.admin_address(), "admin"),
        wrong(&proxy.admin_address(), "nobody"),
        wrong(&proxy.traffic_address(), "app"),
        wrong(&proxy.traffic_address(), "nobody"),
    ] {
        assert_eq!(code(Conn::new(opts).await), 1045);
    }
    Ok(())
}

#[tokio::test]
async fn load_is_the_point_where_rows_take_effect() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = ProxySql::start(&[(10, topology.source()), (20, topology.replica(0))]).await?;
    let mut admin = proxy.admin().await?;
    admin
        .run("UPDATE mysql_servers SET status = 'OFFLINE_SOFT', comment = 'it''s {\"ü\":1}'")
        .await?;
    assert_eq!(
        runtime_status(&mut admin, 10, topology.source()).await?,
        "ONLINE"
    );
    admin.run("LOAD MYSQL SERVERS TO RUNTIME").await?;
    assert_eq!(
        runtime_status(&mut admin, 10, topology.source()).await?,
        "OFFLINE_SOFT"
    );
    let comment = "SELECT comment FROM runtime_mysql_servers";
    assert_eq!(admin.text(comment).await?, "it's {\"ü\":1}");
    // Nobody uses the row that goes, so it goes at once.
    admin
        .run("DELETE FROM mysql_servers WHERE hostgroup_id = 20")
        .await?;
    admin.run("LOAD MYSQL SERVERS FROM MEMORY").await?;
    let rows = admin
        .rows("SELECT hostgroup_id, status FROM runtime_mysql_servers")
        .await?;
    assert_eq!(rows, [row(&["10", "OFFLINE_SOFT"])]);
    Ok(())
}

#[tokio::test]
async fn save_to_memory_stores_shunned_as_online_and_drops_offline_hard() -> anyhow::Result<()> {
    let topology = shared().await;
    let servers = topology.servers();
    let proxy = ProxySql::start(&[(10, &servers[0]), (20, &servers[1]), (30, &servers[2])]).await?;
    let mut admin = proxy.admin().await?;
    for (hostgroup, status) in [(10, "OFFLINE_SOFT"), (20, "SHUNNED"), (30, "OFFLINE_HARD")] {
        let sql = format!(
            "UPDATE mysql_servers SET status = '{status}' WHERE hostgroup_id = {hostgroup}"
        );
        admin.run(&sql).await?;
    }
    admin.run("LOAD MYSQL SERVERS TO RUNTIME").await?;
    assert_eq!(
        runtime_status(&mut admin, 20, &servers[1]).await?,
        "SHUNNED"
    );
    admin.run("SAVE MYSQL SERVERS TO MEMORY").await?;
    let rows = admin
        .rows("SELECT hostgroup_id, status FROM mysql_servers ORDER BY 1")
        .await?;
    assert_eq!(rows, [row(&["10", "OFFLINE_SOFT"]), row(&["20", "ONLINE"])]);
    Ok(())
}

#[tokio::test]
async fn each_load_counts_and_the_checksum_follows_the_content() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = ProxySql::start(&[(10, topology.source())]).await?;
    let mut admin = proxy.admin().await?;
    for name in ["mysql_servers", "mysql_servers_v2"] {
        let (version, checksum) = version_of(&mut admin, name).await?;
        admin.run("LOAD MYSQL SERVERS TO RUNTIME").await?;
        assert_eq!(
            version_of(&mut admin, name).await?,
            (version + 1, checksum.clone())
        );
        admin
            .run(&format!("UPDATE mysql_servers SET comment = 'for {name}'"))
            .await?;
        admin.run("LOAD MYSQL SERVERS TO RUNTIME").await?;
        let (after, changed) = version_of(&mut admin, name).await?;
        assert_eq!(after, version + 2);
        assert_ne!(changed, checksum);
    }
    Ok(())
}

#[tokio::test]
async fn a_restart_brings_back_what_was_saved_to_disk() -> anyhow::Result<()> {
    let topology = shared().await;
    let mut proxy = ProxySql::start(&[(10, topology.source())]).await?;
    let mut admin = proxy.admin().await?;
    admin
        .run("UPDATE mysql_servers SET weight = 11, comment = 'on disk'")
        .await?;
    admin.run("SAVE MYSQL SERVERS TO DISK").await?;
    admin
        .run("UPDATE mysql_servers SET weight = 22, status = 'OFFLINE_SOFT', comment = 'unsaved'")
        .await?;
    admin.run("LOAD MYSQL SERVERS TO RUNTIME").await?;
    admin.run("LOAD MYSQL SERVERS TO RUNTIME").await?;
    assert!(version_of(&mut admin, "mysql_servers").await?.0 > 1);
    let on_disk = "SELECT weight, comment FROM disk.mysql_servers";
    assert_eq!(admin.rows(on_disk).await?, [row(&["11", "on disk"])]);
    drop(admin);
    let (admin_address, traffic_address) = (proxy.admin_address(), proxy.traffic_address());
    proxy.restart().await?;
    assert_eq!(
        (proxy.admin_address(), proxy.traffic_address()),
        (admin_address, traffic_address)
    );
    let mut admin = proxy.admin().await?;
    let rows = admin
        .rows("SELECT weight, status, comment FROM runtime_mysql_servers")
        .await?;
    assert_eq!(rows, [row(&["11", "ONLINE", "on disk"])]);
    assert_eq!(version_of(&mut admin, "mysql_servers").await?.0, 1);
    Ok(())
}

#[tokio::test]
async fn an_unknown_variable_is_accepted_and_ignored() -> anyhow::Result<()> {
    let proxy = ProxySql::start_empty().await?;
    let mut admin = proxy.admin().await?;
    admin.run("SET mysql-no_such_thing = 'x'").await?;
    let none = "SELECT * FROM global_variables WHERE variable_name = 'mysql-no_such_thing'";
    assert!(admin.rows(none).await?.is_empty());
    admin.run("SET mysql-poll_timeout_on_failure = 77").await?;
    let value = "SELECT variable_value FROM runtime_global_variables \
                 WHERE variable_name = 'mysql-poll_timeout_on_failure'";
    assert_eq!(admin.text(value).await?, "100");
    admin.run("LOAD MYSQL VARIABLES TO RUNTIME").await?;
    assert_eq!(admin.text(value).await?, "77");
    Ok(())
}
