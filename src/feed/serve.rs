//! Listening for ProxySQL, one address a server, and telling it.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::ReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::lines::{KEEP_ALIVE, tellable};
use super::session::{End, Evidence, Session};
use crate::clock;
use crate::config;
use crate::fleet::{ServerIx, ServerView};
use crate::moment::Moment;
use crate::observe::Hub;

/// Connections to one server's feed; more wait to be accepted, and hear nothing
/// meanwhile.
const CONNECTIONS_MAX: usize = 1024;
/// A connection on which nothing was said for so long is sent an empty line.
const IDLE: Duration = Duration::from_secs(10);
/// A client that takes no byte for so long is slow.
const TAKES_WITHIN: Duration = Duration::from_secs(5);
/// A peer that confirms nothing for so long is gone, says the kernel: without it
/// a host that lost its power would be talked to for a quarter of an hour.
#[cfg(target_os = "linux")]
const CONFIRMS_WITHIN: Duration = Duration::from_secs(15);
/// What the kernel keeps for a client that does not read.
const UNSENT_MAX: usize = 64 << 10;
/// Bytes that a client may send. ProxySQL sends none.
const HEARD_MAX: usize = 4 << 10;
/// Pause after a failed `accept`, such as "too many open files".
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Why a feed does not listen.
#[derive(Debug, thiserror::Error)]
#[error("feed.listen.{server}: cannot listen on {address}: {source}")]
pub struct FeedError {
    /// Whose feed.
    pub server: String,
    /// The address.
    pub address: SocketAddr,
    /// The reason.
    pub source: std::io::Error,
}

/// Counters of one server's feed.
#[derive(Debug, Default)]
pub struct Stats {
    /// Connections open now.
    pub connections: AtomicU64,
    /// Lines said, empty ones included.
    pub lines: AtomicU64,
    ends: [AtomicU64; End::ALL.len()],
}

impl Stats {
    /// Connections that ended so.
    pub fn ends(&self, end: End) -> u64 {
        self.ends[end as usize].load(Ordering::Relaxed)
    }
}

/// The feeds that are served.
#[derive(Debug)]
pub struct Feeds {
    feeds: Vec<Arc<Feed>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// One server's feed.
#[derive(Debug)]
struct Feed {
    hub: Arc<Hub>,
    server: ServerIx,
    name: String,
    address: SocketAddr,
    places: Arc<Semaphore>,
    stats: Stats,
}

impl Feeds {
    /// Listens on every configured address and serves what `hub` observes, until
    /// [`Feeds::stop`].
    ///
    /// # Errors
    /// When an address cannot be used; then none is.
    pub async fn start(hub: &Arc<Hub>, config: &config::Feed) -> Result<Self, FeedError> {
        let mut bound = Vec::new();
        for listen in &config.listen {
            bound.push(bind(hub, listen).await?);
        }
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let mut feeds = Vec::new();
        for (feed, listener) in bound {
            tracing::info!(server = feed.name, address = %feed.address, "feed listens");
            let serving = accept(Arc::clone(&feed), listener, stop.clone(), tasks.clone());
            tasks.spawn(serving);
            feeds.push(feed);
        }
        Ok(Self { feeds, stop, tasks })
    }

    /// Closes all connections and stops listening.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Where the feed of a server listens.
    pub fn address(&self, server: &str) -> Option<SocketAddr> {
        self.of(server).map(|feed| feed.address)
    }

    /// The counters of a server's feed.
    pub fn stats(&self, server: &str) -> Option<&Stats> {
        self.of(server).map(|feed| &feed.stats)
    }

    /// Every feed: the server's name and the counters.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &Stats)> {
        let all = self.feeds.iter();
        all.map(|feed| (feed.name.as_str(), &feed.stats))
    }

    fn of(&self, server: &str) -> Option<&Arc<Feed>> {
        self.feeds.iter().find(|feed| feed.name == server)
    }
}

async fn bind(
    hub: &Arc<Hub>,
    listen: &config::Listen,
) -> Result<(Arc<Feed>, TcpListener), FeedError> {
    let name = hub.view().server(listen.server).info.name.clone();
    let error = |source| FeedError {
        server: name.clone(),
        address: listen.address,
        source,
    };
    let listener = TcpListener::bind(listen.address).await.map_err(error)?;
    let address = listener.local_addr().map_err(error)?;
    let feed = Feed {
        hub: Arc::clone(hub),
        server: listen.server,
        name,
        address,
        places: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
        stats: Stats::default(),
    };
    Ok((Arc::new(feed), listener))
}

async fn accept(
    feed: Arc<Feed>,
    listener: TcpListener,
    stop: CancellationToken,
    tasks: TaskTracker,
) {
    loop {
        let accepted = tokio::select! {
            accepted = feed.accept(&listener) => accepted,
            () = stop.cancelled() => return,
        };
        let Some((stream, peer, place)) = accepted else {
            continue;
        };
        let (feed, stop) = (Arc::clone(&feed), stop.clone());
        tasks.spawn(async move {
            let _place = place;
            feed.serve(stream, peer, &stop).await;
        });
    }
}

impl Feed {
    async fn accept(
        &self,
        listener: &TcpListener,
    ) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
        if self.places.available_permits() == 0 {
            tracing::warn!(
                server = self.name,
                "the feed has {CONNECTIONS_MAX} connections: more have to wait"
            );
        }
        let places = Arc::clone(&self.places);
        let place = places.acquire_owned().await.expect("it is never closed");
        match listener.accept().await {
            Ok((stream, peer)) => Some((stream, peer, place)),
            Err(error) => {
                tracing::warn!(server = self.name, %error, "the feed cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                None
            }
        }
    }

    async fn serve(&self, mut stream: TcpStream, peer: SocketAddr, stop: &CancellationToken) {
        if let Err(error) = prepare(&stream) {
            tracing::debug!(server = self.name, %peer, %error, "socket options");
        }
        self.note_left_out(peer);
        let _open = Open::count(&self.stats.connections);
        tracing::info!(server = self.name, %peer, "feed connected");
        let end = self.tell(&mut stream, stop).await;
        self.stats.ends[end as usize].fetch_add(1, Ordering::Relaxed);
        tracing::info!(server = self.name, %peer, reason = end.name(), "feed connection ended");
    }

    /// Says what there is to say until the connection has to end.
    async fn tell(&self, stream: &mut TcpStream, stop: &CancellationToken) -> End {
        let (mut heard, mut socket) = stream.split();
        let mut ears = pin!(listen(&mut heard));
        let (mut session, mut unsent) = (Session::default(), Unsent::new(clock::now()));
        loop {
            // Made before the look, so that what is observed after it is heard of.
            let news = pin!(self.hub.news(self.server));
            let known = Evidence::of(self.hub.view().server(self.server));
            if let Err(end) = session.see(known) {
                return end;
            }
            if unsent.is_empty() {
                match session.fill(&mut unsent.bytes) {
                    Ok(lines) => self.stats.lines.fetch_add(lines, Ordering::Relaxed),
                    Err(end) => return end,
                };
                unsent.begin(clock::now());
            }
            tokio::select! {
                biased;
                written = socket.write(unsent.rest()), if !unsent.is_empty() => match written {
                    Ok(count) if count > 0 => unsent.took(count, clock::now()),
                    _ => return End::Gone,
                },
                end = &mut ears => return end,
                () = stop.cancelled() => return End::Stopped,
                () = news => {}
                () = tokio::time::sleep_until(clock::timer(unsent.due())) => {
                    if !unsent.is_empty() {
                        return End::Slow;
                    }
                    unsent.bytes.extend_from_slice(KEEP_ALIVE);
                    self.stats.lines.fetch_add(1, Ordering::Relaxed);
                    unsent.begin(clock::now());
                }
            }
        }
    }

    /// Tagged GTIDs are not told: 2.7.1 would claim others for them.
    fn note_left_out(&self, peer: SocketAddr) {
        let left_out = left_out(self.hub.view().server(self.server));
        if left_out.is_some_and(|count| count > 0) {
            tracing::warn!(server = self.name, %peer, left_out, "tagged GTIDs are not in the feed: ProxySQL cannot tell them apart");
        }
    }
}

/// Executed transactions with a tag, which no feed tells of.
pub(crate) fn left_out(server: &ServerView) -> Option<u64> {
    let executed = server.executed()?;
    Some(executed.count().saturating_sub(tellable(executed)))
}

fn prepare(stream: &TcpStream) -> std::io::Result<()> {
    // A line of ten bytes must not wait for another.
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(stream);
    socket.set_send_buffer_size(UNSENT_MAX)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(CONFIRMS_WITHIN))?;
    Ok(())
}

/// Drops what the client sends, and tells when to stop listening to it.
async fn listen(from: &mut ReadHalf<'_>) -> End {
    let mut dropped = 0;
    let mut bytes = [0; 256];
    loop {
        match from.read(&mut bytes).await {
            Ok(0) | Err(_) => return End::Gone,
            Ok(count) => dropped += count,
        }
        if dropped > HEARD_MAX {
            return End::Talkative;
        }
    }
}

/// Bytes made ready and not yet taken by the kernel: one piece at most.
#[derive(Debug)]
struct Unsent {
    bytes: Vec<u8>,
    taken: usize,
    /// When bytes were last made ready or taken.
    moved: Moment,
}

impl Unsent {
    fn new(now: Moment) -> Self {
        Self {
            bytes: Vec::new(),
            taken: 0,
            moved: now,
        }
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    fn begin(&mut self, now: Moment) {
        if !self.is_empty() {
            self.moved = now;
        }
    }

    fn took(&mut self, count: usize, now: Moment) {
        self.taken += count;
        self.moved = now;
        if self.taken == self.bytes.len() {
            // Given back: most connections are silent most of the time.
            self.bytes = Vec::new();
            self.taken = 0;
        }
    }

    /// When the client is slow, or an idle connection is due a sign of life.
    fn due(&self) -> Moment {
        self.moved
            .plus(if self.is_empty() { IDLE } else { TAKES_WITHIN })
    }
}

/// Counts an open connection while it lives.
struct Open<'a>(&'a AtomicU64);

impl<'a> Open<'a> {
    fn count(open: &'a AtomicU64) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(open)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
