//! `causeway feed` and `causeway serve` as processes.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::stand_in::StandIn;
use crate::harness::{Topology, TopologySpec, shared};
use crate::support::config_text;

const CAUSEWAY: &str = env!("CARGO_BIN_EXE_causeway");

/// A process that serves feeds, killed when dropped.
struct Serving {
    child: Child,
    feed: SocketAddr,
    /// Where else it listens.
    api: Option<SocketAddr>,
}

impl Serving {
    async fn start(args: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new(CAUSEWAY);
        command
            .args(args)
            .args(["--log-format", "json"])
            .env("CAUSEWAY_MYSQL_PASSWORD", "causeway-pw")
            .env_remove("CAUSEWAY_LOG");
        let mut child = command.stderr(Stdio::piped()).kill_on_drop(true).spawn()?;
        let mut log = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let (mut feed, mut api) = (None, None);
        while feed.is_none() || (api.is_none() && args[0] == "serve") {
            let line = log.next_line().await?.expect("it listens before it ends");
            let entry: Value = serde_json::from_str(&line)?;
            let Some(address) = entry["fields"]["address"].as_str() else {
                continue;
            };
            match entry["fields"]["message"].as_str() {
                Some("feed listens") => feed = Some(address.parse()?),
                _ => api = address.parse().ok(),
            }
        }
        // Read on, so that the log never blocks the process.
        tokio::spawn(async move { while let Ok(Some(_)) = log.next_line().await {} });
        let feed = feed.expect("the loop waits for it");
        Ok(Self { child, feed, api })
    }

    async fn terminated(mut self) -> anyhow::Result<Option<i32>> {
        let id = self.child.id().expect("it runs").to_string();
        Command::new("kill").args(["-TERM", &id]).status().await?;
        let status = tokio::time::timeout(Duration::from_secs(10), self.child.wait()).await??;
        Ok(status.code())
    }
}

async fn failure(args: &[&str]) -> anyhow::Result<(Option<i32>, String)> {
    let output = Command::new(CAUSEWAY)
        .args(args)
        .env_remove("CAUSEWAY_MYSQL_PASSWORD")
        .env("GIVEN", "causeway-pw")
        .output()
        .await?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((output.status.code(), text))
}

/// The simplest use: one replica, and nobody to say who its source is.
#[tokio::test(flavor = "multi_thread")]
async fn a_lone_replica_s_feed_is_prompt_and_ends_with_sigterm() -> anyhow::Result<()> {
    let topology = shared().await;
    let serving = lone(&topology).await?;
    let mut peer = StandIn::connect(serving.feed).await?;
    let first = peer.line().await?.expect("the whole set");
    assert!(first.starts_with("ST="), "{first}");
    let source = topology.source();
    source
        .execute("CREATE TABLE app.t (id INT PRIMARY KEY)")
        .await?;
    let mut took = Vec::new();
    for id in 0..60 {
        let insert = format!("INSERT INTO app.t VALUES ({id})");
        let gtid = source.write(&insert).await?;
        took.push(within(&mut peer, &gtid).await?);
    }
    took.sort_unstable();
    println!(
        "from the source's OK to the replica's line: p50 {:?}, p90 {:?}, max {:?}",
        took[30], took[54], took[59]
    );
    assert!(took[30] < Duration::from_millis(50), "{took:?}");
    assert_eq!(serving.terminated().await?, Some(0));
    assert_eq!(peer.line().await?, None);
    Ok(())
}

async fn lone(topology: &Topology) -> anyhow::Result<Serving> {
    let server = topology.replica(0).address();
    Serving::start(&["feed", "--server", &server, "--listen", "127.0.0.1:0"]).await
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test measures with its own clock"
)]
async fn within(peer: &mut StandIn, gtid: &str) -> anyhow::Result<Duration> {
    let start = Instant::now();
    peer.until_told(gtid).await?;
    Ok(start.elapsed())
}

/// Another server takes over as the source: the lone replica's pump waits for
/// the wrong UUID at first.
#[tokio::test(flavor = "multi_thread")]
async fn a_lone_replica_s_feed_follows_a_failover() -> anyhow::Result<()> {
    let topology = Topology::start(TopologySpec::new(2)).await?;
    let server = topology.replica(1).address();
    let serving = Serving::start(&["feed", "--server", &server, "--listen", "127.0.0.1:0"]).await?;
    let mut peer = StandIn::connect(serving.feed).await?;
    peer.line().await?.expect("the whole set");
    let before = topology
        .source()
        .write("CREATE TABLE app.a (id INT)")
        .await?;
    peer.until_told(&before).await?;
    topology.wait_caught_up().await?;
    topology.source().kill().await?;
    topology.promote(0).await?;
    let mut slowest = Duration::ZERO;
    for n in 0..5 {
        let after = format!("CREATE TABLE app.b{n} (id INT)");
        let after = topology.source().write(&after).await?;
        slowest = slowest.max(within(&mut peer, &after).await?);
    }
    println!("slowest after the failover: {slowest:?}");
    assert_eq!(serving.terminated().await?, Some(0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn serve_has_the_feeds_of_its_configuration() -> anyhow::Result<()> {
    let topology = shared().await;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("causeway.toml");
    let feed = "[feed]\nlisten = { db2 = \"127.0.0.1:0\" }\n";
    std::fs::write(&path, config_text(&topology, "causeway-pw") + feed)?;
    let path = path.display().to_string();
    for command in ["serve", "feed"] {
        let serving = Serving::start(&[command, "--config", &path]).await?;
        let mut peer = StandIn::connect(serving.feed).await?;
        assert!(
            peer.line()
                .await?
                .is_some_and(|line| line.starts_with("ST="))
        );
        if let Some(api) = serving.api {
            let url = format!("http://{api}/metrics");
            let text = reqwest::get(url).await?.text().await?;
            for metric in [
                "causeway_feed_connections{server=\"db2\"} 1",
                "causeway_feed_lines_total{server=\"db2\"} 1",
                "causeway_feed_left_out{server=\"db2\"} 0",
            ] {
                assert!(text.contains(metric), "{metric} in {text}");
            }
        }
        assert_eq!(serving.terminated().await?, Some(0), "{command}");
        assert_eq!(peer.line().await?, None);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_keeps_a_feed_from_starting_is_named() -> anyhow::Result<()> {
    let taken = std::net::TcpListener::bind("127.0.0.1:0")?;
    let taken = taken.local_addr()?.to_string();
    let server = ["feed", "--server", "127.0.0.1:1", "--listen", &taken];
    for (more, expected) in [
        (["--password-env", "GIVEN"], "cannot listen on"),
        (["--user", "x"], "CAUSEWAY_MYSQL_PASSWORD"),
        (["--tls", "perhaps"], "preferred"),
    ] {
        let (code, text) = failure(&[&server[..], &more].concat()).await?;
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let both = ["feed", "--config", "c.toml", "--tls", "disabled"];
    let (code, text) = failure(&both).await?;
    assert!(
        code == Some(2) && text.contains("cannot be used with"),
        "{text}"
    );
    let (code, text) = failure(&["feed"]).await?;
    assert_eq!(code, Some(2));
    assert!(text.contains("--config"), "{text}");
    Ok(())
}

/// Connections made while the server is away are held, also by the command.
#[tokio::test(flavor = "multi_thread")]
async fn a_feed_of_a_server_that_is_away_holds_its_connections() -> anyhow::Result<()> {
    let topology = shared().await;
    topology.replica(0).stop().await?;
    let serving = lone(&topology).await?;
    let mut peer = StandIn::connect(serving.feed).await?;
    assert!(peer.is_silent_for(super::A_WHILE).await);
    topology.replica(0).restart().await?;
    assert!(
        peer.line()
            .await?
            .is_some_and(|line| line.starts_with("ST="))
    );
    assert_eq!(serving.terminated().await?, Some(0));
    Ok(())
}
