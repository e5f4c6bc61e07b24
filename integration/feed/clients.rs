//! Clients that ProxySQL is not: slow ones and talkative ones.

use std::sync::Arc;

use causeway::feed::{End, Feeds};
use causeway::fleet::{Event, Identity, Sample, ServerIx, ServerSpec, Version};
use causeway::gtid::{GtidSet, Uuid};
use causeway::moment::Moment;
use causeway::observe::{Hub, Settings};
use tokio::io::AsyncWriteExt as _;

use super::A_WHILE;
use super::stand_in::StandIn;
use crate::harness::until;
use crate::support::SOON;

/// A hub that is told by hand of one server.
fn hub_of(executed: &str) -> Arc<Hub> {
    let spec = ServerSpec {
        name: "db1".to_owned(),
        address: "127.0.0.1:1".to_owned(),
        zone: None,
    };
    let hub = Arc::new(Hub::new(&[spec], &Settings::default()));
    let uuid = Uuid::from_bytes([1; 16]);
    let version = Version::new(9, 7, 4);
    hub.observe(ServerIx(0), Event::Identified(Identity { uuid, version }));
    let set: GtidSet = executed.parse().expect("a set");
    let asked = Moment::from_micros(u64::MAX / 2);
    let sample = Sample {
        server: uuid,
        set: Arc::new(set),
        owned: None,
        asked,
        answered: asked,
        read_only: None,
    };
    hub.observe(ServerIx(0), Event::Executed(sample));
    hub
}

async fn feed_of(hub: &Arc<Hub>) -> anyhow::Result<Feeds> {
    let listen = causeway::config::Listen {
        server: ServerIx(0),
        address: "127.0.0.1:0".parse()?,
    };
    let config = causeway::config::Feed {
        listen: vec![listen],
    };
    Ok(Feeds::start(hub, &config).await?)
}

/// A set whose line is eleven megabytes, and forty clients that read none of it.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_never_read_are_closed_and_cost_little() -> anyhow::Result<()> {
    const CLIENTS: usize = 40;
    let uuid = Uuid::from_bytes([1; 16]);
    let gaps: String = (1..200_000).map(|n| format!(":{}", 2 * n)).collect();
    let hub = hub_of(&format!("{uuid}{gaps}"));
    let feeds = feed_of(&hub).await?;
    let address = feeds.address("db1").expect("it has a feed");
    let before = resident_kib()?;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(16 << 10)?;
        clients.push(socket.connect(address).await?);
    }
    let stats = feeds.stats("db1").expect("it has a feed");
    let most = std::sync::atomic::AtomicU64::new(0);
    until("every client to be closed as slow", SOON, || async {
        most.fetch_max(resident_kib()?, std::sync::atomic::Ordering::Relaxed);
        Ok((stats.ends(End::Slow) == CLIENTS as u64).then_some(()))
    })
    .await?;
    let grown = most.into_inner().saturating_sub(before);
    println!("{CLIENTS} clients with 11 MB unread: {grown} KiB more");
    assert!(
        grown < 100 << 10,
        "{grown} KiB for clients that do not read"
    );
    feeds.stop().await;
    Ok(())
}

fn resident_kib() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.expect("Linux tells it").parse()?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_talks_is_closed_and_others_are_not() -> anyhow::Result<()> {
    let uuid = Uuid::from_bytes([1; 16]);
    let hub = hub_of(&format!("{uuid}:1-5"));
    let feeds = feed_of(&hub).await?;
    let address = feeds.address("db1").expect("it has a feed");
    let mut quiet = StandIn::connect(address).await?;
    quiet.line().await?.expect("the whole set");
    let mut loud = tokio::net::TcpStream::connect(address).await?;
    let stats = feeds.stats("db1").expect("it has a feed");
    until("the talkative one to be closed", SOON, || {
        // It fails once it was closed.
        let _ = loud.try_write(&[b'x'; 8000]);
        async { Ok((stats.ends(End::Talkative) == 1).then_some(())) }
    })
    .await?;
    loud.shutdown().await.unwrap_or_default();
    assert!(quiet.is_silent_for(A_WHILE).await);
    feeds.stop().await;
    assert_eq!(quiet.line().await?, None);
    assert_eq!(stats.ends(End::Stopped), 1);
    Ok(())
}
