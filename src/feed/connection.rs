//! The I/O of one connection: woken by news of the server, not by timers.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::ReadHalf;

use super::lines::KEEP_ALIVE;
use super::session::{End, Evidence, Session};
use crate::clock;
use crate::fleet::ServerIx;
use crate::moment::Moment;
use crate::observe::Hub;

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

/// Says what there is to say until the connection has to end.
pub(super) async fn tell(
    stream: &mut TcpStream,
    hub: &Hub,
    server: ServerIx,
    lines: &AtomicU64,
) -> End {
    let _listening = hub.listen(server);
    let (mut heard, mut socket) = stream.split();
    let mut ears = pin!(listen(&mut heard));
    let (mut session, mut unsent) = (Session::default(), Unsent::new(clock::now()));
    loop {
        // Made before the look, so that what is observed after it is heard of.
        let news = pin!(hub.news(server));
        let known = Evidence::of(hub.view().server(server));
        if let Err(end) = session.see(known) {
            return end;
        }
        if unsent.is_empty() {
            match session.fill(&mut unsent.bytes) {
                Ok(ended) => lines.fetch_add(ended, Ordering::Relaxed),
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
            () = news => {}
            () = tokio::time::sleep_until(clock::timer(unsent.due())) => {
                if !unsent.is_empty() {
                    return End::Slow;
                }
                unsent.bytes.extend_from_slice(KEEP_ALIVE);
                lines.fetch_add(1, Ordering::Relaxed);
                unsent.begin(clock::now());
            }
        }
    }
}

/// What the kernel is to do for the connection.
pub(super) fn prepare(stream: &TcpStream) -> std::io::Result<()> {
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
