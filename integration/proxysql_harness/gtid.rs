//! GTID feeds, and the queries that wait for them.

use anyhow::Context as _;
use mysql_async::{Conn, OptsBuilder, prelude::*};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
};

use crate::harness::{ProxySql, Tracked, shared, until};

use super::support::{SOON, client, code, one_each, set, who};

const U: &str = "11111111-2222-3333-4444-555555555555";
const UH: &str = "11111111222233334444555555555555";
const VH: &str = "aaaaaaaabbbbccccddddeeeeeeeeeeee";
const V: &str = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee";

/// A GTID feed that says what a test wants.
#[derive(Debug)]
struct Feed {
    listener: TcpListener,
    connection: Option<TcpStream>,
}

impl Feed {
    /// A feed for the server in hostgroup 20, connected to the proxy.
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

    /// Waits until the proxy has noticed the end, and dials again for a LOAD.
    async fn accept_after_load(&mut self, proxy: &ProxySql) -> anyhow::Result<()> {
        set_is_gone(proxy).await?;
        proxy.admin_run(&["LOAD MYSQL SERVERS TO RUNTIME"]).await?;
        self.accept().await
    }

    fn hang_up(&mut self) {
        self.connection = None;
    }
}

/// Waits until the proxy shows this set, whatever its order, and number of
/// events for its one feed.
async fn shows(proxy: &ProxySql, set: &str, events: u32) -> anyhow::Result<()> {
    let look = async || {
        let sql = "SELECT gtid_executed, events FROM stats_mysql_gtid_executed";
        proxy.admin_rows(sql).await
    };
    let seen = until("the feed's set", SOON, || async {
        let rows = look().await?;
        let [row] = &rows[..] else { return Ok(None) };
        let shown = row[0].as_deref().unwrap_or("NULL");
        let as_told =
            sorted(shown) == sorted(set) && row[1].as_deref() == Some(&events.to_string());
        Ok(as_told.then_some(()))
    })
    .await;
    match seen {
        Ok(()) => Ok(()),
        Err(_) => anyhow::bail!("{:?} and not {set:?} with {events}", look().await?),
    }
}

async fn set_is_gone(proxy: &ProxySql) -> anyhow::Result<()> {
    until("the feed's set to go", SOON, || async {
        let sql = "SELECT gtid_executed FROM stats_mysql_gtid_executed";
        let rows = proxy.admin_rows(sql).await?;
        let is_gone = |cell: &Option<String>| cell.as_deref().unwrap_or("NULL") == "NULL";
        Ok(rows.iter().flatten().all(is_gone).then_some(()))
    })
    .await
}

/// Sends reads to hostgroup 20, once it has what the session wrote in 10.
async fn gate_reads(proxy: &ProxySql) -> anyhow::Result<()> {
    let rule = "INSERT INTO mysql_query_rules (rule_id, active, match_digest, \
                destination_hostgroup, gtid_from_hostgroup, apply) \
                VALUES (1, 1, '^SELECT', 20, 10, 1)";
    proxy
        .admin_run(&[rule, "LOAD MYSQL QUERY RULES TO RUNTIME"])
        .await
}

fn sorted(set: &str) -> Vec<&str> {
    let mut members: Vec<&str> = set.split(',').collect();
    members.sort_unstable();
    members
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
    // Whatever is asked meanwhile, the two halves do not come as one.
    shows(&proxy, &format!("{U}:1-11,{U}:14-15,{U}:20-20"), 6).await?;
    feed.say("=12\n").await?;
    shows(&proxy, &format!("{U}:1-12,{U}:14-15,{U}:20-20"), 7).await?;
    // A second start never replaces, it adds.
    feed.say(&format!("ST={U}:1-3\n")).await?;
    shows(&proxy, &format!("{U}:1-12,{U}:14-15,{U}:20-20,{U}:1-3"), 7).await
}

#[tokio::test]
async fn the_feed_is_misread_as_measured() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = one_each(&topology).await?;
    let mut feed = Feed::start(&proxy).await?;
    for (said, set, events) in [
        ("ST=\n".to_owned(), String::new(), 0),
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
        // A tag is no tag: the interval before it is claimed for this UUID.
        (
            format!("ST={V}:1-900,{U}:tag\n"),
            format!("{V}:1-900,{U}:1-900"),
            0,
        ),
        // A range adds 0.
        (format!("ST={U}:1-5\nI3={UH}:6-8\n"), format!("{U}:0-5"), 1),
        (
            format!("ST={U}:1-5\nI1={UH}:tag:7\n"),
            format!("{U}:0-5"),
            1,
        ),
    ] {
        feed.hang_up();
        feed.accept().await?;
        feed.say(&said).await?;
        shows(&proxy, &set, events).await.context(said)?;
    }
    Ok(())
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
    // In a session of its own: after 9001 at a gate, 2.7.1 makes no new connection
    // for the session's gated queries, and nobody else has left one in the pool.
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
    shows(&proxy, &format!("{U}:1-5,{U}:7-9,{V}:3-3"), 1).await?;
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
    set_is_gone(&proxy).await?;
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
    gate_reads(&proxy).await?;
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

#[tokio::test]
async fn a_session_that_holds_a_server_meets_no_gate() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = one_each(&topology).await?;
    let mut feed = Feed::start(&proxy).await?;
    feed.say(&format!("ST={U}:1-5\n")).await?;
    shows(&proxy, &format!("{U}:1-5"), 0).await?;
    let mut conn = client(&proxy).await?;
    conn.query_drop("/* hostgroup=20 */ SELECT @u := 1").await?;
    let never = format!("/* hostgroup=20;min_gtid={U}:6 */");
    assert_eq!(who(&mut conn, &never).await?, topology.replica(0).port);
    Ok(())
}

#[tokio::test]
async fn a_waiting_query_is_released_by_the_feed() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = one_each(&topology).await?;
    let mut feed = Feed::start(&proxy).await?;
    feed.say(&format!("ST={U}:1-5\n")).await?;
    shows(&proxy, &format!("{U}:1-5"), 0).await?;
    let mut conn = client(&proxy).await?;
    who(&mut conn, "/* hostgroup=20 */").await?;
    let waiting = tokio::spawn(async move {
        let gate = format!("/* hostgroup=20;min_gtid={U}:6 */");
        who(&mut conn, &gate).await
    });
    // Another client's answers show that the proxy has gone on working.
    let mut other = client(&proxy).await?;
    for _ in 0..20 {
        who(&mut other, "/* hostgroup=20 */").await?;
    }
    assert!(!waiting.is_finished());
    feed.say(&format!("I1={UH}:6\n")).await?;
    assert_eq!(waiting.await??, topology.replica(0).port);
    Ok(())
}

#[tokio::test]
async fn a_client_that_asks_is_told_the_gtid_of_its_write() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = one_each(&topology).await?;
    topology
        .source()
        .execute("CREATE TABLE app.t (id INT PRIMARY KEY)")
        .await?;
    let port = proxy.traffic_port();
    let told = tokio::task::spawn_blocking(move || {
        Tracked::connect_to(port)?.write("INSERT INTO app.t VALUES (1)")
    });
    let (told, executed) = (told.await??, topology.source().executed().await?);
    let (uuid, number) = told.split_once(':').context("a GTID")?;
    assert_eq!(uuid, topology.source().uuid());
    assert!(
        executed.ends_with(&format!("-{number}")),
        "{told} of {executed}"
    );
    Ok(())
}

#[tokio::test]
async fn a_driver_that_asks_variables_at_login_is_never_gated() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = one_each(&topology).await?;
    gate_reads(&proxy).await?;
    let feed = Feed::start(&proxy).await?;
    shows(&proxy, "", 0).await?;
    let plain = OptsBuilder::from_opts(proxy.traffic_opts("root"));
    let asking = plain.max_allowed_packet(None).wait_timeout(None);
    let mut conn = Conn::new(asking).await?;
    conn.query_drop("CREATE TABLE app.t (id INT PRIMARY KEY)")
        .await?;
    // The feed has said nothing, yet the read does not wait.
    assert_eq!(who(&mut conn, "").await?, topology.replica(0).port);
    let gated = "SELECT SUM(Queries_GTID_sync) FROM stats_mysql_connection_pool";
    assert_eq!(proxy.admin().await?.text(gated).await?, "0");
    drop(feed);
    Ok(())
}

#[tokio::test]
async fn one_feed_serves_every_row_of_its_server() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = one_each(&topology).await?;
    let second_row = format!(
        "INSERT INTO mysql_servers (hostgroup_id, hostname, port) VALUES (40, '127.0.0.1', {})",
        topology.replica(0).port
    );
    proxy.admin_run(&[&second_row]).await?;
    let mut feed = Feed::start(&proxy).await?;
    feed.say(&format!("ST={U}:1-5\n")).await?;
    shows(&proxy, &format!("{U}:1-5"), 0).await?;
    let mut conn = client(&proxy).await?;
    let gate = format!("/* hostgroup=40;min_gtid={U}:5 */");
    assert_eq!(who(&mut conn, &gate).await?, topology.replica(0).port);
    Ok(())
}

#[tokio::test]
async fn a_load_dials_a_lost_feed_at_once() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = one_each(&topology).await?;
    set(&proxy, "binlog_reader_connect_retry_msec", "60000").await?;
    let mut feed = Feed::start(&proxy).await?;
    // A retry that was under way takes up the new interval.
    feed.hang_up();
    feed.accept_after_load(&proxy).await?;
    feed.hang_up();
    feed.accept_after_load(&proxy).await?;
    shows(&proxy, "", 0).await
}
