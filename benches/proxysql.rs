//! ProxySQL kept in step: how soon, and at what price to its clients.
//!
//! `PROXYSQL_BIN=/path/to/proxysql cargo bench --bench proxysql`. A real source,
//! two replicas and a real ProxySQL, with Causeway in this process; all of them
//! share this machine's cores.
//!
//! - **leave**: a replica stops applying and the source commits. From just before
//!   the commit to the moment at which ProxySQL's runtime table shows it out.
//! - **moves**: clients read from a tier as fast as they can while replicas are
//!   moved out and in; their errors are counted.

#[path = "../integration/harness/mod.rs"]
mod harness;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use causeway::config::Config;
use causeway::router::Router;
use harness::{Kind, ProxySql, Server, Topology, TopologySpec, until};
use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use support::{Mode, judge, say, time};

const TIER: u32 = 21;
const BOUND: Duration = Duration::from_millis(300);
/// The source is looked at this often, as follows from the bound.
const LOOK: Duration = Duration::from_millis(50);
const ROUNDS: usize = 12;
const CLIENTS: usize = 8;
const MOVING: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_secs(30);

fn main() -> anyhow::Result<()> {
    match Mode::of("proxysql") {
        None => return Ok(()),
        Some(Mode::Test) => {
            say(
                "proxysql",
                "needs MySQL and ProxySQL: cargo bench --bench proxysql",
            );
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
    let topology = Topology::start(TopologySpec::new(2)).await?;
    let source = topology.source();
    source
        .execute("CREATE TABLE app.t (id INT PRIMARY KEY, v INT NOT NULL)")
        .await?;
    source.execute("INSERT INTO app.t VALUES (1, 0)").await?;
    topology.wait_caught_up().await?;
    let rows: Vec<(u32, &Server)> = topology.replicas().map(|replica| (20, replica)).collect();
    let proxy = ProxySql::start(&[vec![(10, source)], rows].concat()).await?;
    if proxy.kind() == Kind::StandIn {
        say(
            "proxysql",
            "figures of the stand-in: PROXYSQL_BIN names no real one",
        );
    }
    let router = start(&topology, &proxy)?;
    let both: Vec<&Server> = topology.replicas().collect();
    until_online(&proxy, &both).await?;
    leave(&topology, &proxy).await?;
    moves(&topology, &proxy, &router).await?;
    router.stop().await;
    proxy.stop().await
}

fn start(topology: &Topology, proxy: &ProxySql) -> anyhow::Result<Router> {
    let entry = |server: &Server| {
        format!(
            "{{name={:?},address={:?}}}",
            server.name(),
            server.address()
        )
    };
    let servers: Vec<String> = topology.servers().iter().map(entry).collect();
    let text = format!(
        "[mysql]\nuser=\"causeway\"\npassword=\"causeway-pw\"\nservers=[{}]\n\
         [proxysql]\nuser=\"admin\"\npassword=\"admin\"\n\
         instances=[{{name=\"px\",address={:?}}}]\n\
         [[proxysql.tier]]\nhostgroup={TIER}\nmax_staleness=\"{}ms\"\ndwell=\"200ms\"\n\
         changes_per_minute_max=1000\n",
        servers.join(","),
        proxy.admin_address(),
        BOUND.as_millis(),
    );
    let config = Config::parse(&text, &|_| None)?;
    ensure!(
        config.observe.source_heartbeat == LOOK,
        "the bench's idea of a look is right"
    );
    Ok(Router::start(&config))
}

async fn until_online(proxy: &ProxySql, servers: &[&Server]) -> anyhow::Result<()> {
    until("the tier to offer what it should", SOON, || async {
        for server in servers {
            if !is_online(proxy, server).await? {
                return Ok(None);
            }
        }
        Ok(Some(()))
    })
    .await
}

async fn is_online(proxy: &ProxySql, server: &Server) -> anyhow::Result<bool> {
    let rows = proxy.admin_rows(&query(server)).await?;
    Ok(rows[0][0].as_deref() == Some("1"))
}

fn query(server: &Server) -> String {
    format!(
        "SELECT COUNT(*) FROM runtime_mysql_servers WHERE hostgroup_id={TIER} AND port={} \
         AND status='ONLINE'",
        server.port
    )
}

async fn leave(topology: &Topology, proxy: &ProxySql) -> anyhow::Result<()> {
    let mut times = time::Times::new();
    let mut admin = proxy.admin().await?;
    for round in 0..ROUNDS {
        let replica = round % 2;
        let server = topology.replica(replica);
        topology.stop_applier(replica).await?;
        let committed = time::now();
        topology
            .source()
            .execute("UPDATE app.t SET v = v + 1")
            .await?;
        let query = query(server);
        while admin.rows(&query).await?[0][0].as_deref() == Some("1") {
            ensure!(committed.elapsed() < SOON, "the replica never leaves");
        }
        times.add(committed.elapsed());
        topology.start_applier(replica).await?;
        until_online(proxy, &[server]).await?;
    }
    admin.close().await?;
    let limit = BOUND + 2 * LOOK + Duration::from_millis(50);
    let (p50, max) = (times.p50(), times.quantile(1.0));
    judge(
        "proxysql/leave",
        max <= limit,
        format!("p50 {p50:?} max {max:?} after the commit, bound {BOUND:?}, {ROUNDS} rounds"),
        format!("{limit:?}"),
    );
    Ok(())
}

async fn moves(topology: &Topology, proxy: &ProxySql, router: &Router) -> anyhow::Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    let done = Arc::<AtomicU64>::default();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut conn = Conn::new(proxy.traffic_opts("root")).await?;
        let (told, done) = (Arc::clone(&stop), Arc::clone(&done));
        clients.push(tokio::spawn(async move {
            let mut errors = Vec::new();
            while !told.load(Ordering::Acquire) {
                let read = format!("/* hostgroup={TIER} */ SELECT v FROM app.t");
                if let Err(error) = conn.query_first::<i32, _>(read).await {
                    errors.push(error.to_string());
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
            errors
        }));
    }
    let loads = || {
        let controller = router.proxysql().expect("it is configured");
        controller.stats[0].loads.load(Ordering::Relaxed)
    };
    let (started, loads_before) = (time::now(), loads());
    let mut round = 0;
    while started.elapsed() < MOVING {
        let replica = round % 2;
        topology.stop_applier(replica).await?;
        topology
            .source()
            .execute("UPDATE app.t SET v = v + 1")
            .await?;
        let server = topology.replica(replica);
        until("the replica to leave", SOON, || async {
            Ok((!is_online(proxy, server).await?).then_some(()))
        })
        .await?;
        topology.start_applier(replica).await?;
        until_online(proxy, &[server]).await?;
        round += 1;
    }
    stop.store(true, Ordering::Release);
    let mut errors = Vec::new();
    for client in clients {
        errors.extend(client.await.context("a client")?);
    }
    let figures = format!(
        "{} errors of {} queries, {} moves, {} LOADs in {:?}",
        errors.len(),
        done.load(Ordering::Relaxed),
        2 * round,
        loads() - loads_before,
        started.elapsed(),
    );
    judge("proxysql/moves", errors.is_empty(), figures, "0 errors");
    for error in errors.iter().take(5) {
        say("proxysql/moves", error);
    }
    Ok(())
}
