//! Where a query goes, and what becomes of it when its server may no longer have it.

use anyhow::Context as _;
use mysql_async::{Conn, Error, Params, prelude::*};

use crate::harness::{ProxySql, Server, Topology, shared, until};

use super::support::{SOON, WHO, client, code, one_each, set, set_status, who};

#[tokio::test]
async fn the_first_comment_chooses_the_hostgroup() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = one_each(&topology).await?;
    let rule = "INSERT INTO mysql_query_rules (rule_id, active, match_digest, \
                destination_hostgroup, apply) VALUES (1, 1, '^SELECT', 20, 1)";
    proxy
        .admin_run(&[rule, "LOAD MYSQL QUERY RULES TO RUNTIME"])
        .await?;
    let mut conn = client(&proxy).await?;
    let long = format!("/* hostgroup=30;{} */", "x".repeat(1100));
    for honoured in [
        "/*hostgroup=30*/",
        "/* HOSTGROUP = 30 */",
        "/*\t\nhostgroup=30\n*/",
        "/* it's text;hostgroup=30 */",
        "/*+ ;hostgroup=30 */",
        "/* hostgroup=10;hostgroup=30 */",
        "/* hostgroup=30abc */",
        "-- a line\n/* hostgroup=30 */",
        "/* hostgroup=30 */ /*+ MAX_EXECUTION_TIME(9000) */",
        &long,
    ] {
        let port = who(&mut conn, honoured).await?;
        assert_eq!(port, topology.replica(1).port, "{honoured}");
    }
    let late = format!("/* {};hostgroup=30 */", "x".repeat(1100));
    for ignored in [
        "",
        "/*+ hostgroup=30 */",
        "-- hostgroup=30\n",
        "# hostgroup=30\n",
        "/* a */ /* hostgroup=30 */",
        "/**/ /* hostgroup=30 */",
        "/*app='x',hostgroup=30*/",
        "/* hostgroup='30' */",
        "/* hostgroup=-30 */",
        &late,
    ] {
        let port = who(&mut conn, ignored).await?;
        assert_eq!(port, topology.replica(0).port, "{ignored}");
    }
    let inside = format!("SELECT variable_value, '/* hostgroup=30 */' {}", &WHO[22..]);
    let (port, _): (u16, String) = conn.query_first(inside).await?.context("a row")?;
    assert_eq!(port, topology.replica(0).port);
    Ok(())
}

#[tokio::test]
async fn hints_work_for_prepared_statements() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = one_each(&topology).await?;
    let mut conn = client(&proxy).await?;
    for round in 0..3_i64 {
        for (hostgroup, server) in [10, 20, 30].into_iter().zip(topology.servers()) {
            let sql = format!(
                "/* hostgroup={hostgroup} */ SELECT variable_value, ?, ? \
                 FROM performance_schema.global_variables WHERE variable_name = ?"
            );
            let text = format!("round's {round}");
            let values = Params::from((round, text.as_str(), "port"));
            let row: Option<(u16, i64, String)> = conn.exec_first(sql, values).await?;
            assert_eq!(row, Some((server.port, round, text)));
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_transaction_stays_where_it_began() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = one_each(&topology).await?;
    let (source, replica) = (topology.source().port, topology.replica(0).port);
    let mut conn = client(&proxy).await?;
    conn.query_drop("/* hostgroup=20 */ START TRANSACTION READ ONLY")
        .await?;
    for comment in ["", "/* hostgroup=30 */", "/* hostgroup=10 */"] {
        assert_eq!(who(&mut conn, comment).await?, replica, "{comment}");
    }
    conn.query_drop("COMMIT").await?;
    assert_eq!(who(&mut conn, "").await?, source);
    conn.query_drop("BEGIN").await?;
    assert_eq!(who(&mut conn, "/* hostgroup=20 */").await?, source);
    conn.query_drop("ROLLBACK").await?;
    assert_eq!(who(&mut conn, "/* hostgroup=20 */").await?, replica);
    Ok(())
}

#[tokio::test]
async fn answers_come_through_as_they_are() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = one_each(&topology).await?;
    let mut conn = client(&proxy).await?;
    conn.query_drop("USE app").await?;
    conn.query_drop("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(9))")
        .await?;
    conn.query_drop("INSERT INTO t (v) VALUES ('a'), (NULL), ('ü')")
        .await?;
    assert_eq!((conn.affected_rows(), conn.last_insert_id()), (3, Some(1)));
    let rows: Vec<(u32, Option<String>)> = conn.query("SELECT * FROM t ORDER BY id").await?;
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(rows, [(1, text("a")), (2, None), (3, text("ü"))]);
    let none: Option<u32> = conn.query_first("SELECT id FROM t WHERE id > 3").await?;
    assert_eq!(none, None);
    assert_eq!(code(conn.query_drop("SELECT nothing").await), 1054);
    assert_eq!(
        code(conn.query_drop("INSERT INTO t (id) VALUES (1)").await),
        1062
    );
    assert_eq!(who(&mut conn, "").await?, topology.source().port);
    Ok(())
}

/// Two servers in hostgroup 20; all the work goes to the first as long as it may.
async fn preferring_the_first(topology: &Topology) -> anyhow::Result<ProxySql> {
    let (first, second) = (topology.replica(0), topology.replica(1));
    let proxy = ProxySql::start(&[(20, first), (20, second)]).await?;
    let weight = format!(
        "UPDATE mysql_servers SET weight = 10000000 WHERE port = {}",
        first.port
    );
    proxy
        .admin_run(&[&weight, "LOAD MYSQL SERVERS TO RUNTIME"])
        .await?;
    Ok(proxy)
}

#[tokio::test]
async fn work_under_way_finishes_and_new_work_goes_elsewhere() -> anyhow::Result<()> {
    let topology = shared().await;
    let (first, second) = (topology.replica(0), topology.replica(1));
    let proxy = preferring_the_first(&topology).await?;
    for status in ["SHUNNED", "OFFLINE_SOFT"] {
        let mut in_transaction = client(&proxy).await?;
        in_transaction.query_drop("START TRANSACTION").await?;
        assert_eq!(who(&mut in_transaction, "").await?, first.port);
        let sleeping = tokio::spawn(sleep_and_tell(client(&proxy).await?));
        sleeps(first).await?;
        set_status(&proxy, first, status).await?;
        let mut fresh = client(&proxy).await?;
        for _ in 0..5 {
            assert_eq!(who(&mut fresh, "").await?, second.port, "{status}");
        }
        assert_eq!(sleeping.await??, first.port, "{status}");
        assert_eq!(who(&mut in_transaction, "").await?, first.port, "{status}");
        in_transaction.query_drop("COMMIT").await?;
        assert_eq!(who(&mut in_transaction, "").await?, second.port, "{status}");
        set_status(&proxy, first, "ONLINE").await?;
        assert_eq!(who(&mut in_transaction, "").await?, first.port, "{status}");
    }
    Ok(())
}

#[tokio::test]
async fn without_an_online_server_a_query_ends_with_9001() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = ProxySql::start(&[(20, topology.replica(0))]).await?;
    set(&proxy, "connect_timeout_server_max", "200").await?;
    let mut conn = client(&proxy).await?;
    assert_eq!(code(who(&mut conn, "/* hostgroup=99 */").await), 9001);
    assert_eq!(who(&mut conn, "").await?, topology.replica(0).port);
    for status in ["OFFLINE_SOFT", "SHUNNED", "OFFLINE_HARD"] {
        set_status(&proxy, topology.replica(0), status).await?;
        let Err(Error::Server(error)) = who(&mut conn, "").await else {
            panic!("{status} answers")
        };
        assert_eq!((error.code, error.state.as_str()), (9001, "HY000"));
        let begins = "Max connect timeout reached while reaching hostgroup 20 after 20";
        assert!(error.message.starts_with(begins), "{}", error.message);
        set_status(&proxy, topology.replica(0), "ONLINE").await?;
        assert_eq!(
            who(&mut conn, "").await?,
            topology.replica(0).port,
            "{status}"
        );
    }
    proxy
        .admin_run(&[
            "UPDATE mysql_servers SET weight = 0",
            "LOAD MYSQL SERVERS TO RUNTIME",
        ])
        .await?;
    assert_eq!(code(who(&mut client(&proxy).await?, "").await), 9001);
    Ok(())
}

#[tokio::test]
async fn a_waiting_query_is_released_by_a_server_that_comes_online() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = ProxySql::start(&[(20, topology.replica(0))]).await?;
    set_status(&proxy, topology.replica(0), "SHUNNED").await?;
    let mut conn = client(&proxy).await?;
    let waiting = tokio::spawn(async move { who(&mut conn, "").await });
    // It has begun to wait once the proxy has had time to read it; if not, the
    // test shows less, but nothing wrong.
    tokio::task::yield_now().await;
    set_status(&proxy, topology.replica(0), "ONLINE").await?;
    assert_eq!(waiting.await??, topology.replica(0).port);
    Ok(())
}

#[tokio::test]
async fn a_server_that_refuses_is_passed_over() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = ProxySql::start(&[(20, topology.replica(0))]).await?;
    let dead =
        "INSERT INTO mysql_servers (hostgroup_id, hostname, port) VALUES (20, '127.0.0.1', 1)";
    proxy
        .admin_run(&[dead, "LOAD MYSQL SERVERS TO RUNTIME"])
        .await?;
    for _ in 0..5 {
        let mut conn = client(&proxy).await?;
        assert_eq!(who(&mut conn, "").await?, topology.replica(0).port);
    }
    Ok(())
}

#[tokio::test]
async fn work_on_a_row_that_goes_is_run_again_elsewhere() -> anyhow::Result<()> {
    let topology = shared().await;
    let (first, second) = (topology.replica(0), topology.replica(1));
    let remove = format!("DELETE FROM mysql_servers WHERE port = {}", first.port);
    let hard = format!(
        "UPDATE mysql_servers SET status = 'OFFLINE_HARD' WHERE port = {}",
        first.port
    );
    for change in [remove, hard] {
        let proxy = preferring_the_first(&topology).await?;
        let mut in_transaction = client(&proxy).await?;
        in_transaction.query_drop("START TRANSACTION").await?;
        assert_eq!(who(&mut in_transaction, "").await?, first.port);
        let sleeping = tokio::spawn(sleep_and_tell(client(&proxy).await?));
        sleeps(first).await?;
        proxy
            .admin_run(&[&change, "LOAD MYSQL SERVERS TO RUNTIME"])
            .await?;
        assert_eq!(sleeping.await??, second.port, "{change}");
        let lost = who(&mut in_transaction, "").await;
        assert!(lost.is_err(), "{change}: {lost:?}");
    }
    Ok(())
}

/// Sleeps for a second on a server, and tells which one finished it.
async fn sleep_and_tell(mut conn: Conn) -> mysql_async::Result<u16> {
    let slow = format!("SELECT variable_value, SLEEP(1) {}", &WHO[22..]);
    let row: Option<(u16, u8)> = conn.query_first(slow).await?;
    Ok(row.expect("a server has a port").0)
}

async fn sleeps(server: &Server) -> anyhow::Result<()> {
    until("the query to run", SOON, || async {
        let running = "SELECT COUNT(*) FROM performance_schema.processlist \
                       WHERE info LIKE 'SELECT variable_value, SLEEP%'";
        Ok((server.value::<u32>(running).await? == 1).then_some(()))
    })
    .await
}

#[tokio::test]
async fn a_sessions_settings_follow_it_to_every_server() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = one_each(&topology).await?;
    let mut conn = client(&proxy).await?;
    conn.query_drop("SET time_zone = '+03:00'").await?;
    conn.query_drop("USE app").await?;
    for hostgroup in [10, 20, 30, 10] {
        let sql = format!(
            "/* hostgroup={hostgroup} */ SELECT TIME_FORMAT(TIMEDIFF(NOW(), UTC_TIMESTAMP()), '%H:%i'), DATABASE()"
        );
        let row: Option<(String, String)> = conn.query_first(sql).await?;
        assert_eq!(row, Some(("03:00".into(), "app".into())), "{hostgroup}");
    }
    Ok(())
}

#[tokio::test]
async fn a_pools_connection_starts_afresh() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = one_each(&topology).await?;
    let pool = mysql_async::Pool::new(proxy.traffic_opts("app"));
    for _ in 0..3 {
        let mut conn = pool.get_conn().await?;
        let before: Option<Option<u32>> = conn.query_first("SELECT @once").await?;
        assert_eq!(before, Some(None));
        conn.query_drop("SET @once = 7").await?;
    }
    Ok(pool.disconnect().await?)
}

#[tokio::test]
async fn the_pool_counts_connections_and_queries() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = one_each(&topology).await?;
    let counts = async || {
        let sql = "SELECT ConnUsed, ConnFree, ConnOK, Queries FROM stats_mysql_connection_pool \
                   WHERE hostgroup = 20";
        let rows = proxy.admin_rows(sql).await?;
        let row = rows.into_iter().next().context("a row")?;
        let numbers = row
            .into_iter()
            .map(|cell| Ok(cell.context("no NULL")?.parse()?));
        numbers.collect::<anyhow::Result<Vec<u64>>>()
    };
    assert_eq!(counts().await?, [0, 0, 0, 0]);
    let mut conn = client(&proxy).await?;
    conn.query_drop("/* hostgroup=20 */ BEGIN").await?;
    who(&mut conn, "").await?;
    // The real one counts what it asks a new connection for as well.
    let busy = counts().await?;
    assert_eq!(busy[..3], [1, 0, 1]);
    assert!(busy[3] >= 2, "{busy:?}");
    conn.query_drop("COMMIT").await?;
    assert_eq!(counts().await?, [0, 1, 1, busy[3] + 1]);
    Ok(())
}

#[tokio::test]
async fn a_restart_ends_sessions_and_serves_new_ones() -> anyhow::Result<()> {
    let topology = shared().await;
    let mut proxy = one_each(&topology).await?;
    let mut conn = client(&proxy).await?;
    assert_eq!(who(&mut conn, "").await?, topology.source().port);
    proxy.restart().await?;
    assert!(who(&mut conn, "").await.is_err());
    let mut conn = client(&proxy).await?;
    assert_eq!(
        who(&mut conn, "/* hostgroup=30 */").await?,
        topology.replica(1).port
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn many_clients_at_once_get_their_own_answers() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = one_each(&topology).await?;
    let ports: Vec<u16> = topology
        .servers()
        .iter()
        .map(|server| server.port)
        .collect();
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..16_usize {
        let (opts, ports) = (proxy.traffic_opts("app"), ports.clone());
        clients.spawn(async move {
            let mut conn = Conn::new(opts).await?;
            for round in 0..30 {
                let to = (number + round) % 3;
                let hint = format!("/* hostgroup={} */", 10 * (to + 1));
                assert_eq!(who(&mut conn, &hint).await?, ports[to]);
                let echo = format!("{hint} SELECT {number}, ?");
                let row: Option<(usize, usize)> = conn.exec_first(echo, (round,)).await?;
                assert_eq!(row, Some((number, round)));
            }
            conn.disconnect().await
        });
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    until("no connection to be in use", SOON, || async {
        let sql = "SELECT SUM(ConnUsed) FROM stats_mysql_connection_pool";
        Ok((proxy.admin().await?.text(sql).await? == "0").then_some(()))
    })
    .await
}
