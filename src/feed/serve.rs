//! Listening for ProxySQL, one address a server, and telling it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection;
use super::lines::tellable;
use super::session::End;
use crate::config;
use crate::fleet::{ServerIx, ServerView};
use crate::observe::Hub;

/// Connections to one server's feed; more wait to be accepted, and hear nothing
/// meanwhile.
const CONNECTIONS_MAX: usize = 1024;
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
        if let Err(error) = connection::prepare(&stream) {
            tracing::debug!(server = self.name, %peer, %error, "socket options");
        }
        self.note_left_out(peer);
        let _open = Open::count(&self.stats.connections);
        tracing::info!(server = self.name, %peer, "feed connected");
        let lines = &self.stats.lines;
        let end = tokio::select! {
            end = connection::tell(&mut stream, &self.hub, self.server, lines) => end,
            () = stop.cancelled() => End::Stopped,
        };
        self.stats.ends[end as usize].fetch_add(1, Ordering::Relaxed);
        tracing::info!(server = self.name, %peer, reason = end.name(), "feed connection ended");
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
