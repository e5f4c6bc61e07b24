//! Reads gated by GTID through a real ProxySQL: Causeway's feed against the known
//! binlog reader.
//!
//! `PROXYSQL_BIN=… PROXYSQL_BINLOG_READER=… cargo bench --bench feed`. Two
//! ProxySQLs stand before the same source and replica. One is fed by Causeway, in
//! this process, the other by the reader, and the same client alternates between
//! them: it updates 3,000 rows and reads one of them back, with
//! `gtid_from_hostgroup`. A read that does not show the update is dirty. Done once
//! as the servers are, and once with a group commit delay of 200 ms on the
//! replica. Without a reader only Causeway's side is measured.

#[path = "../integration/harness/mod.rs"]
mod harness;
mod support;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use causeway::config::Config;
use causeway::feed::Feeds;
use causeway::router::Router;
use harness::{Kind, ProxySql, Server, Topology, TopologySpec, until};
use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use support::{Mode, judge, say, time};

const ROWS: u32 = 3000;
const UPDATES: u32 = 500;
/// More of them, for a 99th percentile that means something.
const SMALL_UPDATES: u32 = 3000;
const SLOW_UPDATES: u32 = 50;
/// No later than with the reader; both share two cores with everything else.
const LIMIT: f64 = 1.02;
const SOON: Duration = Duration::from_secs(30);
const READER: &str = "PROXYSQL_BINLOG_READER";

fn main() -> anyhow::Result<()> {
    match Mode::of("feed") {
        None => return Ok(()),
        Some(Mode::Test) => {
            say("feed", "needs MySQL and ProxySQL: cargo bench --bench feed");
            return Ok(());
        }
        Some(Mode::Measure) => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(measure())
}

async fn measure() -> anyhow::Result<()> {
    let topology = Topology::start(TopologySpec::new(1)).await?;
    fill(&topology).await?;
    let (router, feeds, port) = causeway(&topology).await?;
    let mut sides = vec![Side::start("causeway", &topology, port).await?];
    let reader = Reader::start(topology.replica(0))?;
    if let Some(reader) = &reader {
        sides.push(Side::start("reader", &topology, reader.port).await?);
    } else {
        say("feed", format!("{READER} is not set: Causeway's side only"));
    }
    let cases = [
        ("3,000 rows", "", UPDATES),
        ("1 row", " WHERE id = 7", SMALL_UPDATES),
    ];
    for (what, rows, updates) in cases {
        round(&mut sides, what, rows, updates).await?;
        compare(&sides, what);
    }
    let slow = [
        "SET GLOBAL sync_binlog = 0",
        "SET GLOBAL binlog_group_commit_sync_delay = 200000",
    ];
    topology.replica(0).execute_all(&slow).await?;
    round(&mut sides, "group commit delay 200 ms", "", SLOW_UPDATES).await?;
    for side in sides {
        side.proxy.stop().await?;
    }
    feeds.stop().await;
    router.stop().await;
    Ok(())
}

async fn fill(topology: &Topology) -> anyhow::Result<()> {
    let values: Vec<String> = (1..=ROWS).map(|id| format!("({id}, 0)")).collect();
    let source = topology.source();
    // What the reader asks for at its start.
    source
        .execute("GRANT REPLICATION CLIENT ON *.* TO repl")
        .await?;
    source
        .execute("CREATE TABLE app.t (id INT PRIMARY KEY, v INT NOT NULL)")
        .await?;
    source
        .execute(&format!("INSERT INTO app.t VALUES {}", values.join(",")))
        .await?;
    topology.wait_caught_up().await
}

async fn causeway(topology: &Topology) -> anyhow::Result<(Router, Feeds, u16)> {
    let entry = |server: &Server| {
        let (name, address) = (server.name(), server.address());
        format!("{{name={name:?},address={address:?}}}")
    };
    let servers: Vec<String> = topology.servers().iter().map(entry).collect();
    let replica = topology.replica(0).name();
    let text = format!(
        "[mysql]\nuser=\"causeway\"\npassword=\"causeway-pw\"\nservers=[{}]\n\
         [feed]\nlisten={{ {replica} = \"127.0.0.1:0\" }}\n",
        servers.join(",")
    );
    let config = Config::parse(&text, &|_| None)?;
    let router = Router::start(&config);
    let feeds = Feeds::start(router.hub(), &config.feed).await?;
    let port = feeds.address(replica).context("the feed listens")?.port();
    Ok((router, feeds, port))
}

/// One ProxySQL, its feed's port, and what was measured through it.
struct Side {
    name: &'static str,
    proxy: ProxySql,
    conn: Conn,
    times: time::Times,
    dirty: u32,
    /// What it wrote last: odd numbers or even ones, so that every write of
    /// either side changes the row.
    value: u32,
}

impl Side {
    async fn start(name: &'static str, topology: &Topology, port: u16) -> anyhow::Result<Self> {
        let rows = [(10, topology.source()), (20, topology.replica(0))];
        let proxy = ProxySql::start(&rows).await?;
        if proxy.kind() == Kind::StandIn {
            say(
                "feed",
                "figures of the stand-in: PROXYSQL_BIN names no real one",
            );
        }
        let port = format!("UPDATE mysql_servers SET gtid_port={port} WHERE hostgroup_id=20");
        let statements = [
            port.as_str(),
            "LOAD MYSQL SERVERS TO RUNTIME",
            "INSERT INTO mysql_query_rules (rule_id, active, match_digest, \
             destination_hostgroup, gtid_from_hostgroup, apply) \
             VALUES (1, 1, '^SELECT v', 20, 10, 1)",
            "LOAD MYSQL QUERY RULES TO RUNTIME",
        ];
        proxy.admin_run(&statements).await?;
        until("the feed to be heard", SOON, || async {
            let rows = proxy
                .admin_rows("SELECT gtid_executed FROM stats_mysql_gtid_executed")
                .await?;
            let heard = rows
                .iter()
                .any(|row| row[0].as_ref().is_some_and(|set| !set.is_empty()));
            Ok(heard.then_some(()))
        })
        .await
        .with_context(|| format!("the feed of {name}"))?;
        let conn = Conn::new(proxy.traffic_opts("root")).await?;
        Ok(Self {
            name,
            proxy,
            conn,
            times: time::Times::new(),
            dirty: 0,
            value: u32::from(name == "reader"),
        })
    }

    async fn write_and_read(&mut self, rows: &str) -> anyhow::Result<()> {
        let value = self.value;
        self.conn
            .query_drop(format!("UPDATE app.t SET v = {value}{rows}"))
            .await?;
        let written = time::now();
        let read: Option<u32> = self
            .conn
            .query_first("SELECT v FROM app.t WHERE id = 7")
            .await?;
        if read == Some(value) {
            self.times.add(written.elapsed());
        } else {
            self.dirty += 1;
        }
        Ok(())
    }

    /// Queries that ProxySQL held back by GTID.
    async fn gated(&self) -> anyhow::Result<u32> {
        let query = "SELECT SUM(Queries_GTID_sync) FROM stats_mysql_connection_pool";
        let rows = self.proxy.admin_rows(query).await?;
        let sum = rows[0][0].as_deref().unwrap_or("0");
        Ok(sum.parse()?)
    }
}

async fn round(sides: &mut [Side], what: &str, rows: &str, updates: u32) -> anyhow::Result<()> {
    let mut before = Vec::new();
    for side in sides.iter_mut() {
        (side.dirty, side.times) = (0, time::Times::new());
        before.push(side.gated().await?);
    }
    for _ in 0..updates {
        for side in sides.iter_mut() {
            side.value += 2;
            let done = side.write_and_read(rows).await;
            done.with_context(|| format!("{what} through {}", side.name))?;
        }
    }
    for (side, before) in sides.iter().zip(before) {
        let gated = side.gated().await? - before;
        ensure!(
            gated >= updates,
            "{}: only {gated} reads were gated",
            side.name
        );
        let name = format!("feed/{what}/{}", side.name);
        let figures = format!(
            "{} of {updates} dirty, clean ones p50 {:?} p99 {:?}",
            side.dirty,
            side.times.p50(),
            side.times.p99()
        );
        if side.name == "causeway" {
            judge(&name, side.dirty == 0, figures, "0 dirty");
        } else {
            say(&name, figures);
        }
    }
    Ok(())
}

/// How long a read takes with either feed.
fn compare(sides: &[Side], what: &str) {
    let [ours, reader] = sides else { return };
    let ratio = |quantile| {
        ours.times.quantile(quantile).as_secs_f64() / reader.times.quantile(quantile).as_secs_f64()
    };
    let (p50, p99) = (ratio(0.5), ratio(0.99));
    judge(
        &format!("feed/{what}/against the reader"),
        p50.max(p99) <= LIMIT,
        format!("p50 {p50:.2}× p99 {p99:.2}×"),
        "1.00×, and 2 % for noise",
    );
}

/// The binlog reader before a server; it ends when this is dropped.
struct Reader {
    process: std::process::Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Reader {
    fn start(server: &Server) -> anyhow::Result<Option<Self>> {
        let Some(program) = std::env::var_os(READER) else {
            return Ok(None);
        };
        let folder = tempfile::tempdir()?;
        let port = free_port()?;
        let process = std::process::Command::new(program)
            .args(["-h", "127.0.0.1", "-u", "repl", "-p", "repl-pw", "-f"])
            .args(["-P", &server.port.to_string(), "-l", &port.to_string()])
            .arg("-L")
            .arg(folder.path().join("reader.log"))
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .context("the binlog reader does not start")?;
        Ok(Some(Self {
            process,
            port,
            _folder: folder,
        }))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.process.kill().unwrap_or_default();
        self.process.wait().map(drop).unwrap_or_default();
    }
}

fn free_port() -> std::io::Result<u16> {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    Ok(std::net::TcpListener::bind(any)?.local_addr()?.port())
}
