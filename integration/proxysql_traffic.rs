//! What was measured of ProxySQL 2.7.1's routing, monitor and GTID gates, as
//! tests that hold of the real one and of the stand-in alike.

use std::time::Duration;

use anyhow::Context as _;
use mysql_async::{Conn, Error, Params, prelude::*};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
};

use crate::harness::{Admin, ProxySql, Server, Topology, shared, until};

const SOON: Duration = Duration::from_secs(20);

/// Says which server answers, without a variable, which would hold the server.
const WHO: &str = "SELECT variable_value FROM performance_schema.global_variables \
                   WHERE variable_name = 'port'";

const U: &str = "11111111-2222-3333-4444-555555555555";
const UH: &str = "11111111222233334444555555555555";
const VH: &str = "aaaaaaaabbbbccccddddeeeeeeeeeeee";
const V: &str = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee";

async fn client(proxy: &ProxySql) -> anyhow::Result<Conn> {
    Conn::new(proxy.traffic_opts("root"))
        .await
        .with_context(|| proxy.log_tail())
}

async fn who(conn: &mut Conn, comment: &str) -> mysql_async::Result<u16> {
    let port: Option<u16> = conn.query_first(format!("{comment} {WHO}")).await?;
    Ok(port.expect("a server has a port"))
}

/// Hostgroup 10 is the source, 20 the first replica, 30 the second.
async fn one_each(topology: &Topology) -> anyhow::Result<ProxySql> {
    let [source, first, second] = topology.servers() else {
        anyhow::bail!("three servers")
    };
    ProxySql::start(&[(10, source), (20, first), (30, second)]).await
}

async fn set(proxy: &ProxySql, name: &str, value: &str) -> anyhow::Result<()> {
    let set = format!("SET mysql-{name} = '{value}'");
    proxy
        .admin_run(&[&set, "LOAD MYSQL VARIABLES TO RUNTIME"])
        .await
}

fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> u16 {
    match result {
        Err(Error::Server(error)) => error.code,
        other => panic!("no error of the server: {other:?}"),
    }
}

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

async fn set_status(proxy: &ProxySql, server: &Server, status: &str) -> anyhow::Result<()> {
    let sql = format!(
        "UPDATE mysql_servers SET status = '{status}' WHERE port = {}",
        server.port
    );
    proxy
        .admin_run(&[&sql, "LOAD MYSQL SERVERS TO RUNTIME"])
        .await
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
        let mut busy = client(&proxy).await?;
        let slow = format!(
            "SELECT variable_value, SLEEP(1) /* {status} */ {}",
            &WHO[22..]
        );
        let sleeping = tokio::spawn(async move { busy.query_first::<(u16, u8), _>(slow).await });
        until("the query to run", SOON, || async {
            let running = "SELECT COUNT(*) FROM performance_schema.processlist \
                           WHERE info LIKE 'SELECT variable_value, SLEEP%'";
            Ok((first.value::<u32>(running).await? == 1).then_some(()))
        })
        .await?;
        set_status(&proxy, first, status).await?;
        let mut fresh = client(&proxy).await?;
        for _ in 0..5 {
            assert_eq!(who(&mut fresh, "").await?, second.port, "{status}");
        }
        assert_eq!(sleeping.await??, Some((first.port, 0)), "{status}");
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

async fn placed(proxy: &ProxySql, server: &Server, at: &[(u32, &str)]) -> anyhow::Result<()> {
    let mut admin = proxy.admin().await?;
    let wanted: Vec<(u32, String)> = at
        .iter()
        .map(|(group, status)| (*group, (*status).into()))
        .collect();
    let mut seen = Vec::new();
    for _ in 0..200 {
        seen = places(&mut admin, server).await?;
        if seen == wanted {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    anyhow::bail!(
        "{server} is at {seen:?}, not at {at:?}\n{}",
        proxy.log_tail()
    )
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

/// A GTID feed that says what a test wants.
#[derive(Debug)]
struct Feed {
    listener: TcpListener,
    connection: Option<TcpStream>,
}

impl Feed {
    /// A feed for the server in hostgroup 20, and the proxy connected to it.
    async fn start(proxy: &ProxySql) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let row = format!(
            "UPDATE mysql_servers SET gtid_port = {} WHERE hostgroup_id = 20",
            listener.local_addr()?.port()
        );
        proxy
            .admin_run(&[&row, "LOAD MYSQL SERVERS TO RUNTIME"])
            .await?;
        let mut feed = Self {
            listener,
            connection: None,
        };
        feed.accept().await?;
        Ok(feed)
    }

    async fn accept(&mut self) -> anyhow::Result<()> {
        let accepting = tokio::time::timeout(SOON, self.listener.accept());
        let (stream, _) = accepting.await.context("the proxy does not dial")??;
        stream.set_nodelay(true)?;
        self.connection = Some(stream);
        Ok(())
    }

    async fn say(&mut self, text: &str) -> anyhow::Result<()> {
        let connection = self.connection.as_mut().context("not connected")?;
        Ok(connection.write_all(text.as_bytes()).await?)
    }

    fn hang_up(&mut self) {
        self.connection = None;
    }
}

/// Waits until the proxy shows this set and number of events for its one feed.
async fn shows(proxy: &ProxySql, set: &str, events: u32) -> anyhow::Result<()> {
    let mut admin = proxy.admin().await?;
    let mut seen = Vec::new();
    for _ in 0..400 {
        let sql = "SELECT gtid_executed, events FROM stats_mysql_gtid_executed";
        seen = admin.rows(sql).await?;
        if let [row] = &seen[..] {
            let shown = row[0].as_deref().unwrap_or("NULL");
            if shown == set && row[1].as_deref() == Some(&events.to_string()) {
                return Ok(());
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    anyhow::bail!("{seen:?} and not {set:?} with {events} events")
}

#[tokio::test]
async fn the_feed_is_read_as_measured() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = one_each(&topology).await?;
    let mut feed = Feed::start(&proxy).await?;
    shows(&proxy, "", 0).await?;
    feed.say(&format!("ST={U}:1-5,{U}:7-9\n")).await?;
    shows(&proxy, &format!("{U}:1-5,{U}:7-9"), 0).await?;
    feed.say(&format!("I1={UH}:10\nI2=11\n")).await?;
    shows(&proxy, &format!("{U}:1-5,{U}:7-11"), 2).await?;
    feed.say("I2=6\n").await?;
    shows(&proxy, &format!("{U}:1-11"), 3).await?;
    feed.say("#\n\nI2=20\nI2=14\nI2=15\r\n").await?;
    shows(&proxy, &format!("{U}:1-11,{U}:14-15,{U}:20-20"), 6).await?;
    feed.say("I2").await?;
    tokio::time::sleep(Duration::from_millis(50)).await;
    feed.say("=12\n").await?;
    shows(&proxy, &format!("{U}:1-12,{U}:14-15,{U}:20-20"), 7).await?;
    // A second start never replaces, it adds.
    feed.say(&format!("ST={U}:1-3\n")).await?;
    shows(&proxy, &format!("{U}:1-12,{U}:14-15,{U}:20-20,{U}:1-3"), 7).await
}

/// What the feed says from its start, what is shown then, and how many events.
async fn reads(
    said: &str,
    set: &str,
    events: u32,
    feed: &mut Feed,
    proxy: &ProxySql,
) -> anyhow::Result<()> {
    feed.hang_up();
    feed.accept().await?;
    feed.say(said).await?;
    shows(proxy, set, events)
        .await
        .with_context(|| said.to_owned())
}

#[tokio::test]
async fn the_feed_is_misread_as_measured() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = one_each(&topology).await?;
    let mut feed = Feed::start(&proxy).await?;
    for (said, set, events) in [
        (format!("ST=\nI1={UH}:1\n"), format!("{U}:1-1"), 1),
        // Only the first interval of a UUID is read.
        (format!("ST={U}:1-5:7-9\n"), format!("{U}:1-5"), 0),
        // A single number has no end.
        (format!("ST={U}:1-5,{V}:7\n"), format!("{U}:1-5,{V}:7-5"), 0),
        (format!("ST={U}:1-1\n"), format!("{U}:1-1"), 0),
        (
            format!("ST={U}:1-5,{V}:1-9\n"),
            format!("{U}:1-5,{V}:1-9"),
            0,
        ),
        // I2 follows the UUID named last, by ST as well.
        (
            format!("ST={U}:1-5,{V}:1-9\nI2=10\n"),
            format!("{U}:1-5,{V}:1-10"),
            1,
        ),
        (
            format!("ST={U}:1-5\nI1={VH}:3\nI2=4\n"),
            format!("{U}:1-5,{V}:3-4"),
            2,
        ),
        // A range adds 0.
        (format!("ST={U}:1-5\nI3={UH}:6-8\n"), format!("{U}:0-5"), 1),
        (
            format!("ST={U}:1-5\nI1={UH}:tag:7\n"),
            format!("{U}:0-5"),
            1,
        ),
    ] {
        let either = sorted(&set);
        feed.hang_up();
        feed.accept().await?;
        feed.say(&said).await?;
        shows_sorted(&proxy, &either, events).await.context(said)?;
    }
    reads("ST=\n", "", 0, &mut feed, &proxy).await
}

// The order of UUIDs is not defined.
fn sorted(set: &str) -> Vec<String> {
    let mut members: Vec<String> = set.split(',').map(str::to_owned).collect();
    members.sort();
    members
}

async fn shows_sorted(proxy: &ProxySql, set: &[String], events: u32) -> anyhow::Result<()> {
    let mut admin = proxy.admin().await?;
    let mut seen = Vec::new();
    for _ in 0..400 {
        seen = admin
            .rows("SELECT gtid_executed, events FROM stats_mysql_gtid_executed")
            .await?;
        if let [row] = &seen[..]
            && sorted(row[0].as_deref().unwrap_or("NULL")) == set
            && row[1].as_deref() == Some(&events.to_string())
        {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    anyhow::bail!("{seen:?} and not {set:?} with {events} events")
}

#[tokio::test]
async fn min_gtid_waits_for_the_feed() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = one_each(&topology).await?;
    set(&proxy, "connect_timeout_server_max", "200").await?;
    let mut feed = Feed::start(&proxy).await?;
    shows(&proxy, "", 0).await?;
    let mut conn = client(&proxy).await?;
    let gate = |gtid: &str| format!("/* hostgroup=20;min_gtid={gtid} */");
    let at = |number: u32| gate(&format!("{U}:{number}"));
    // In a session of its own: one whose very first query in a hostgroup ends at
    // a gate gets through no gate of that hostgroup in 2.7.1, before a query
    // without one has been there.
    assert_eq!(code(who(&mut client(&proxy).await?, &at(1)).await), 9001);
    feed.say(&format!("ST={U}:1-5,{U}:7-9\n")).await?;
    shows(&proxy, &format!("{U}:1-5,{U}:7-9"), 0).await?;
    for (number, passes) in [
        (1, true),
        (5, true),
        (6, false),
        (7, true),
        (9, true),
        (3, true),
    ] {
        let answer = who(&mut conn, &at(number)).await;
        match passes {
            true => assert_eq!(
                answer.with_context(|| format!("{number} waits"))?,
                topology.replica(0).port
            ),
            false => assert_eq!(code(answer), 9001, "{number}"),
        }
    }
    // Byte for byte: capitals make another UUID.
    feed.say(&format!("I1={VH}:3\n")).await?;
    shows_sorted(&proxy, &sorted(&format!("{U}:1-5,{U}:7-9,{V}:3-3")), 1).await?;
    assert_eq!(
        who(&mut conn, &gate(&format!("{V}:3"))).await?,
        topology.replica(0).port
    );
    let capitals = gate(&format!("{}:3", V.to_uppercase()));
    assert_eq!(code(who(&mut conn, &capitals).await), 9001);
    // What is no GTID is no gate.
    for none in [format!("{U}:0"), format!("{U}:tag:3")] {
        assert_eq!(
            who(&mut conn, &gate(&none)).await?,
            topology.replica(0).port,
            "{none}"
        );
    }
    // The set goes with its connection, and only the new one counts after it.
    feed.hang_up();
    until("the set to go", SOON, || async {
        let sql = "SELECT gtid_executed FROM stats_mysql_gtid_executed";
        let rows = proxy.admin_rows(sql).await?;
        let gone = rows
            .iter()
            .flatten()
            .all(|cell| cell.as_deref().unwrap_or("NULL") == "NULL");
        Ok(gone.then_some(()))
    })
    .await?;
    assert_eq!(code(who(&mut conn, &at(3)).await), 9001);
    feed.accept().await?;
    feed.say(&format!("ST={U}:1-2\n")).await?;
    shows(&proxy, &format!("{U}:1-2"), 0).await?;
    assert_eq!(who(&mut conn, &at(2)).await?, topology.replica(0).port);
    assert_eq!(code(who(&mut conn, &at(3)).await), 9001);
    Ok(())
}

#[tokio::test]
async fn a_rule_gates_reads_by_the_sessions_last_write() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = one_each(&topology).await?;
    set(&proxy, "connect_timeout_server_max", "300").await?;
    let rule = "INSERT INTO mysql_query_rules (rule_id, active, match_digest, \
                destination_hostgroup, gtid_from_hostgroup, apply) \
                VALUES (1, 1, '^SELECT', 20, 10, 1)";
    proxy
        .admin_run(&[rule, "LOAD MYSQL QUERY RULES TO RUNTIME"])
        .await?;
    let mut feed = Feed::start(&proxy).await?;
    let uuid = topology.source().uuid();
    feed.say(&format!("ST={uuid}:1-1\n")).await?;
    shows(&proxy, &format!("{uuid}:1-1"), 0).await?;
    let mut conn = client(&proxy).await?;
    // Nothing written, nothing to wait for.
    assert_eq!(who(&mut conn, "").await?, topology.replica(0).port);
    conn.query_drop("CREATE TABLE app.t (id INT PRIMARY KEY)")
        .await?;
    conn.query_drop("INSERT INTO app.t VALUES (1)").await?;
    let executed = topology.source().executed().await?;
    let last = executed.rsplit('-').next().context("a set")?;
    assert_eq!(code(who(&mut conn, "").await), 9001);
    // Another session has written nothing.
    assert_eq!(
        who(&mut client(&proxy).await?, "").await?,
        topology.replica(0).port
    );
    let flat = uuid.replace('-', "");
    feed.say(&format!("I1={flat}:{last}\n")).await?;
    assert_eq!(who(&mut conn, "").await?, topology.replica(0).port);
    let gated = "SELECT Queries_GTID_sync FROM stats_mysql_connection_pool WHERE hostgroup = 20";
    let mut admin = proxy.admin().await?;
    assert!(admin.text(gated).await?.parse::<u64>()? >= 1);
    Ok(())
}
