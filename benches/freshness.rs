//! From the source's OK to "fresh": Causeway against a client that waits itself.
//!
//! `cargo bench --bench freshness`. One thread writes on a real source and then
//! finds out, in turns, when the one replica shows the write:
//!
//! - the peer runs `WAIT_FOR_EXECUTED_GTID_SET` on the replica, on a connection
//!   of its own;
//! - `Router::route` with the write's GTID as token, in process;
//! - one `POST /v1/route` with that token;
//! - for comparison, Causeway's own driver alone: its question on a tokio
//!   runtime, and nothing around it.
//!
//! No connection uses TLS, so that all are on the same footing. Everything shares this machine's cores, so whatever Causeway does while the
//! replica applies the write also delays the replica.

#[path = "../integration/harness/mod.rs"]
mod harness;
#[path = "support/real.rs"]
mod real;
mod support;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::ensure;
use causeway::api;
use causeway::config::Config;
use causeway::fleet::Role;
use causeway::route::OnTimeout;
use causeway::router::{Read, Router};
use harness::{Topology, TopologySpec, Tracked};
use mysql::prelude::Queryable as _;
use mysql_async::prelude::Queryable as _;
use support::http::{BlockingClient, post};
use support::{Mode, judge, say, time};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

const WRITES_EACH: usize = 3000;
const WARM_UP: usize = 100;
const LIMIT: f64 = 1.15;
const WAIT_MAX: Duration = Duration::from_secs(2);

fn main() -> anyhow::Result<()> {
    match Mode::of("freshness") {
        None => return Ok(()),
        Some(Mode::Test) => {
            say(
                "freshness",
                "needs MySQL servers: cargo bench --bench freshness",
            );
            return Ok(());
        }
        Some(Mode::Measure) => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let topology = runtime.block_on(Topology::start(TopologySpec::new(1)))?;
    runtime.block_on(topology.source().execute_all(&[
        "CREATE TABLE app.freshness (id INT PRIMARY KEY, v INT NOT NULL)",
        "INSERT INTO app.freshness VALUES (1, 0)",
    ]))?;
    let (router, config) = runtime.block_on(real::router(&topology, "disabled"))?;
    let api = runtime.block_on(serve(&router, &config))?;
    let mut bench = Bench {
        tracked: Tracked::connect(topology.source())?,
        peer: peer(&topology)?,
        http: BlockingClient::connect(api)?,
        driver: runtime.block_on(driver(&topology))?,
        router: router.clone(),
        runtime,
    };
    let [peer, in_process, http, driver] = bench.run()?;
    say(
        "freshness/peer",
        format!(
            "p50 {:?} p99 {:?} of {} writes",
            peer.p50(),
            peer.p99(),
            peer.len()
        ),
    );
    say("freshness/driver alone", ratios(&driver, &peer).2);
    verdict("freshness/in process", &in_process, &peer);
    verdict("freshness/http", &http, &peer);
    bench.runtime.block_on(router.stop());
    Ok(())
}

fn verdict(name: &str, ours: &time::Times, peer: &time::Times) {
    let (p50, p99, figures) = ratios(ours, peer);
    judge(name, p50.max(p99) <= LIMIT, figures, "1.15×");
}

/// How much longer it takes than the peer: p50, p99, and both in words.
fn ratios(ours: &time::Times, peer: &time::Times) -> (f64, f64, String) {
    let ratio =
        |quantile| ours.quantile(quantile).as_secs_f64() / peer.quantile(quantile).as_secs_f64();
    let (p50, p99) = (ratio(0.5), ratio(0.99));
    let times = format!("{:?}, {:?}", ours.p50(), ours.p99());
    (p50, p99, format!("p50 {p50:.2}× p99 {p99:.2}× ({times})"))
}

struct Bench {
    tracked: Tracked,
    peer: mysql::Conn,
    http: BlockingClient,
    driver: mysql_async::Conn,
    router: Router,
    runtime: Runtime,
}

impl Bench {
    /// Times of the peer, of the router in process, over HTTP, and of the driver.
    fn run(&mut self) -> anyhow::Result<[time::Times; 4]> {
        let mut times = [(); 4].map(|()| time::Times::new());
        for number in 0..4 * (WARM_UP + WRITES_EACH) {
            let sql = format!("UPDATE app.freshness SET v = {} WHERE id = 1", number + 1);
            let gtid = self.tracked.write(&sql)?;
            let start = time::now();
            match number % 4 {
                0 => self.ask_server(&gtid)?,
                1 => self.ask_router(&gtid)?,
                2 => self.ask_http(&gtid)?,
                _ => self.ask_driver(&gtid)?,
            }
            if number >= 4 * WARM_UP {
                times[number % 4].add(start.elapsed());
            }
        }
        Ok(times)
    }

    fn ask_server(&mut self, gtid: &str) -> anyhow::Result<()> {
        let sql = format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{gtid}',2)");
        ensure!(
            self.peer.query_first(sql)? == Some(0),
            "the replica does not catch up"
        );
        Ok(())
    }

    fn ask_router(&mut self, gtid: &str) -> anyhow::Result<()> {
        let read = Read {
            token: Some(gtid.parse()?),
            max_wait: Some(WAIT_MAX),
            on_timeout: Some(OnTimeout::Error),
            ..Read::default()
        };
        let route = self.runtime.block_on(self.router.route(&read))?;
        ensure!(route.decision.role == Role::Replica, "{route:?}");
        Ok(())
    }

    fn ask_http(&mut self, gtid: &str) -> anyhow::Result<()> {
        let body =
            format!("{{\"token\":\"{gtid}\",\"max_wait_ms\":2000,\"on_timeout\":\"error\"}}");
        let answer = self.http.ask(&post("/v1/route", &body))?;
        let replica = answer.windows(9).any(|nine| nine == b"\"replica\"");
        ensure!(replica, "{}", String::from_utf8_lossy(answer));
        Ok(())
    }

    fn ask_driver(&mut self, gtid: &str) -> anyhow::Result<()> {
        let sql = format!(
            "SELECT WAIT_FOR_EXECUTED_GTID_SET('{gtid}',2),@@GLOBAL.gtid_executed,@@GLOBAL.read_only"
        );
        let asked = self.driver.query_first::<(i64, String, i64), _>(sql);
        let answer = self.runtime.block_on(asked)?;
        ensure!(
            answer.is_some_and(|row| row.0 == 0),
            "the replica does not catch up"
        );
        Ok(())
    }
}

/// A plain connection to the replica, as an application holds one.
fn peer(topology: &Topology) -> anyhow::Result<mysql::Conn> {
    let opts = mysql::OptsBuilder::new()
        .ip_or_hostname(Some("127.0.0.1"))
        .tcp_port(topology.replica(0).port)
        .prefer_socket(false)
        .user(Some("causeway"))
        .pass(Some("causeway-pw"));
    Ok(mysql::Conn::new(opts)?)
}

/// A connection as Causeway's own are.
async fn driver(topology: &Topology) -> anyhow::Result<mysql_async::Conn> {
    let opts = topology.replica(0).opts("causeway", "causeway-pw");
    Ok(mysql_async::Conn::new(opts).await?)
}

async fn serve(router: &Router, config: &Config) -> anyhow::Result<SocketAddr> {
    let (tell, address) = tokio::sync::oneshot::channel();
    let (app, api) = (api::routes(router, &config.api), config.api.clone());
    tokio::spawn(async move {
        let ready = |address| tell.send(address).expect("somebody waits for it");
        api::serve(app, &api, CancellationToken::new(), ready).await
    });
    Ok(address.await?)
}
