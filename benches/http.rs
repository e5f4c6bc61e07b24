//! `POST /v1/route` against a bare axum handler.
//!
//! `cargo bench --bench http`. Both are asked by the same lean client over
//! connections that stay open, in turns; both answer JSON of the same size. The
//! bare handler reads nothing and knows its answer beforehand: it is the limit
//! of what an HTTP server on this runtime can do. Servers and client share this
//! machine's cores.

mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::http::header;
use causeway::fleet::ServerSpec;
use causeway::observe::{Hub, Settings};
use causeway::router::{Router, Write};
use causeway::{api, clock};
use support::http::{Client, post};
use support::{Mode, fleet, judge, median, say, time};
use tokio_util::sync::CancellationToken;

const REPLICAS: u16 = 8;
const EXECUTED: u64 = 1_000_000;
const LIMIT: f64 = 0.8;

fn main() -> anyhow::Result<()> {
    let Some(mode) = Mode::of("http") else {
        return Ok(());
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let (causeway, router) = runtime.block_on(causeway())?;
    let sample = runtime.block_on(async {
        let mut client = Client::connect(causeway).await?;
        anyhow::Ok(client.ask(&request(0)).await?.to_vec())
    })?;
    let bare = runtime.block_on(bare(sample.clone()))?;
    say(
        "http/cores shared by servers and client",
        std::thread::available_parallelism()?,
    );
    say("http/answer", String::from_utf8_lossy(&sample));
    for connections in [1, 64] {
        compare(mode, connections, causeway, bare)?;
    }
    runtime.block_on(router.stop());
    Ok(())
}

/// Alternates between the two, and judges the median of the ratios.
fn compare(
    mode: Mode,
    connections: u64,
    causeway: SocketAddr,
    bare: SocketAddr,
) -> anyhow::Result<()> {
    let span = Duration::from_millis(mode.pick(1500, 50));
    let mut rounds = Vec::new();
    for _ in 0..mode.pick(9, 1) {
        rounds.push((
            rate(causeway, connections, span)?,
            rate(bare, connections, span)?,
        ));
    }
    let ratio = median(rounds.iter().map(|(ours, bare)| ours / bare).collect());
    let ours = median(rounds.iter().map(|round| round.0).collect());
    let bare = median(rounds.iter().map(|round| round.1).collect());
    let figures = format!(
        "{:.0} % of bare axum ({ours:.0} of {bare:.0} requests/s)",
        100.0 * ratio
    );
    judge(
        &format!("http/{connections} connections"),
        ratio >= LIMIT,
        figures,
        "80 %",
    );
    Ok(())
}

/// Requests per second over this many connections, by a client on a thread of
/// its own.
fn rate(server: SocketAddr, connections: u64, span: Duration) -> anyhow::Result<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let (done, stop) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let mut clients = tokio::task::JoinSet::new();
        for number in 0..connections {
            let mut client = Client::connect(server).await?;
            let (done, stop, request) = (Arc::clone(&done), Arc::clone(&stop), request(number));
            clients.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    client.ask(&request).await?;
                    done.fetch_add(1, Ordering::Relaxed);
                }
                anyhow::Ok(())
            });
        }
        tokio::time::sleep(span / 10).await;
        let (start, before) = (time::now(), done.load(Ordering::Relaxed));
        tokio::time::sleep(span).await;
        let rate = (done.load(Ordering::Relaxed) - before) as f64 / start.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        while let Some(client) = clients.join_next().await {
            client??;
        }
        Ok(rate)
    })
}

fn request(number: u64) -> Vec<u8> {
    post(
        "/v1/route",
        &format!("{{\"session\":\"session:{number}\"}}"),
    )
}

/// Causeway's API over a fleet of nine, with sessions that have written.
async fn causeway() -> anyhow::Result<(SocketAddr, Router)> {
    let config = fleet::config(REPLICAS);
    let specs: Vec<ServerSpec> = fleet::specs(REPLICAS);
    let hub = Arc::new(Hub::new(&specs, &Settings::default()));
    let now = clock::now();
    let events = fleet::begin(REPLICAS, &fleet::executed(EXECUTED / 2), now).into_iter();
    for (server, event) in events.chain(fleet::grow(REPLICAS, &fleet::executed(EXECUTED), now)) {
        hub.observe(server, event);
    }
    let router = Router::over(hub, &config);
    for number in 0..64 {
        let gtid = format!("{}:{}", fleet::uuid(0), EXECUTED - number);
        let write = Write {
            session: Some(&format!("session:{number}")),
            gtid: Some(gtid.parse()?),
        };
        router.wrote(&write).await?;
    }
    let (tell, address) = tokio::sync::oneshot::channel();
    let app = api::routes(&router, &config.api);
    tokio::spawn(async move {
        let ready = |address| tell.send(address).expect("somebody waits for it");
        api::serve(app, &config.api, CancellationToken::new(), ready).await
    });
    Ok((address.await?, router))
}

/// axum and nothing else.
async fn bare(answer: Vec<u8>) -> anyhow::Result<SocketAddr> {
    let answer = axum::body::Bytes::from(answer);
    let handler = move || {
        let answer = answer.clone();
        async move { ([(header::CONTENT_TYPE, "application/json")], answer) }
    };
    let app = axum::Router::new().route("/v1/route", axum::routing::post(handler));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        axum::serve(
            axum::serve::ListenerExt::tap_io(listener, |stream| {
                let _ = stream.set_nodelay(true);
            }),
            app,
        )
        .await
    });
    Ok(address)
}
