//! The connections that wait on a server: its pump and its barriers.

use std::sync::atomic::Ordering;
use std::time::Duration;

use mysql_async::Conn;

use super::Target;
use super::query::{Reader, barrier, sample};
use crate::clock;
use crate::fleet::{Event, Fault, FleetView, Identity, ServerView};
use crate::gtid::{Gtid, GtidSet};

/// How long one barrier waits before the next waiter has its turn. Rarely
/// reached: transactions become visible in order almost everywhere.
const BARRIER_SLICE: Duration = Duration::from_millis(10);
/// How long the pump waits on a server whose executed set has gaps: what
/// commits out of order there does not end a wait for the next in order.
const GAP_SLICE: Duration = Duration::from_millis(10);
/// An answer that is later than this, after its barrier should have ended, will
/// not come: the server hangs.
const HANG: Duration = Duration::from_secs(1);
/// An unused connection is tried this often.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Keeps the server's executed set known, woken by the server itself. Returns
/// when the connection is of no use any more.
pub(super) async fn pump(target: Target, mut conn: Conn, identity: Identity) -> Fault {
    let mut reader = Reader::of(&identity);
    if let Err(fault) = look(&target, &mut conn, &mut reader).await {
        return fault;
    }
    loop {
        if let Err(fault) = pump_once(&target, &mut conn, &mut reader).await {
            return fault;
        }
    }
}

async fn pump_once(target: &Target, conn: &mut Conn, reader: &mut Reader) -> Result<(), Fault> {
    let started = clock::now();
    let shared = target.hub.server(target.ix);
    shared.pacer.turn().await;
    let (next, timeout) = next_news(target);
    let sample = match next {
        Some(next) => barrier(conn, reader, &next, timeout, HANG).await?,
        None => {
            let sample = sample(conn, reader, target.settings.query_timeout).await?;
            tokio::time::sleep(timeout.min(target.settings.source_heartbeat)).await;
            sample
        }
    };
    shared.stats.pump_queries.fetch_add(1, Ordering::Relaxed);
    target.hub.observe(target.ix, Event::Executed(sample));
    tokio::time::sleep_until(clock::timer(started.plus(target.settings.pump_interval))).await;
    Ok(())
}

/// The transaction whose appearance is news on this server, and how long to
/// wait for it. Nothing to name as long as no source is known.
fn next_news(target: &Target) -> (Option<GtidSet>, Duration) {
    let view = target.hub.view();
    let server = view.server(target.ix);
    let heartbeat = if view.source == Ok(target.ix) {
        target.settings.source_heartbeat
    } else {
        target.settings.replica_heartbeat
    };
    let timeout = if has_gaps(&view, server) {
        GAP_SLICE.min(heartbeat)
    } else {
        heartbeat
    };
    let next = view.main_sid.map(|sid| {
        GtidSet::from(Gtid {
            sid,
            gno: server.watermark + 1,
        })
    });
    (next, timeout)
}

fn has_gaps(view: &FleetView, server: &ServerView) -> bool {
    let main = view.main_sid.zip(server.executed());
    main.and_then(|(sid, set)| set.intervals(&sid).map(|own| own.len() > 1))
        .unwrap_or(false)
}

/// Waits on the server for what routed reads wait for.
pub(super) async fn barriers(target: Target, mut conn: Conn, identity: Identity) -> Fault {
    let mut reader = Reader::of(&identity);
    if let Err(fault) = look(&target, &mut conn, &mut reader).await {
        return fault;
    }
    loop {
        if let Err(fault) = barrier_once(&target, &mut conn, &mut reader).await {
            return fault;
        }
    }
}

async fn barrier_once(target: &Target, conn: &mut Conn, reader: &mut Reader) -> Result<(), Fault> {
    let shared = target.hub.server(target.ix);
    let next = tokio::time::timeout(KEEP_ALIVE, shared.waiters.next()).await;
    let Ok((id, need)) = next else {
        // An unused connection is tried now and then, so that it is known to
        // work when it is needed.
        return look(target, conn, reader).await;
    };
    let _taken = Taken { target, id };
    shared.pacer.turn().await;
    let missing = target.hub.missing(target.ix, &need);
    shared.stats.barrier_queries.fetch_add(1, Ordering::Relaxed);
    let sample = barrier(conn, reader, &missing, BARRIER_SLICE, HANG).await?;
    target.hub.observe(target.ix, Event::Executed(sample));
    Ok(())
}

/// A waiter that a barrier is under way for.
struct Taken<'a> {
    target: &'a Target,
    id: u64,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.target
            .hub
            .server(self.target.ix)
            .waiters
            .put_back(self.id);
    }
}

/// The executed set as of now.
async fn look(target: &Target, conn: &mut Conn, reader: &mut Reader) -> Result<(), Fault> {
    let sample = sample(conn, reader, target.settings.query_timeout).await?;
    target.hub.observe(target.ix, Event::Executed(sample));
    Ok(())
}
