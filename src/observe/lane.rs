//! The connections that wait on a server: its pump and its barriers.

use std::sync::atomic::Ordering;
use std::time::Duration;

use mysql_async::Conn;

use super::Target;
use super::aim::Aim;
use super::query::{Reader, barrier, sample};
use crate::clock;
use crate::fleet::{Event, Fault, Identity};
use crate::gtid::GtidSet;

/// How long one barrier waits before the next waiter has its turn. Rarely
/// reached: transactions become visible in order almost everywhere.
const BARRIER_SLICE: Duration = Duration::from_millis(10);
/// An answer that is later than this, after its barrier should have ended, will
/// not come: the server hangs.
const HANG: Duration = Duration::from_secs(1);
/// Least time between two looks of the pump while a feed is open, whose clients
/// wait for every transaction.
const LISTENED_TO_INTERVAL: Duration = Duration::from_millis(1);
/// An unused connection is tried this often.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Keeps the server's executed set known, woken by the server itself. Returns
/// when the connection is of no use any more.
pub(super) async fn pump(target: Target, mut conn: Conn, identity: Identity) -> Fault {
    let mut reader = Reader::of(&identity);
    let mut aim = Aim::default();
    if let Err(fault) = look(&target, &mut conn, &mut reader).await {
        return fault;
    }
    loop {
        if let Err(fault) = pump_once(&target, &mut conn, &mut reader, &mut aim).await {
            return fault;
        }
    }
}

async fn pump_once(
    target: &Target,
    conn: &mut Conn,
    reader: &mut Reader,
    aim: &mut Aim,
) -> Result<(), Fault> {
    let started = clock::now();
    let shared = target.hub.server(target.ix);
    shared.pacer.turn().await;
    let (next, timeout) = {
        let view = target.hub.view();
        aim.next(&view, view.server(target.ix), &target.settings, started)
    };
    let sample = match next {
        Some(next) => barrier(conn, reader, &GtidSet::from(next), timeout, HANG).await?,
        None => sample(conn, reader, target.settings.query_timeout).await?,
    };
    shared.stats.pump_queries.fetch_add(1, Ordering::Relaxed);
    aim.saw(next.as_ref(), &sample.set, sample.answered);
    target.hub.observe(target.ix, Event::Executed(sample));
    // With nothing to wait for, the server is looked at now and then.
    let interval = target.settings.pump_interval;
    let interval = match target.hub.is_listened_to(target.ix) {
        true => interval.min(LISTENED_TO_INTERVAL),
        false => interval,
    };
    let pause = interval.max(match next {
        Some(_) => Duration::ZERO,
        None => timeout,
    });
    tokio::select! {
        () = tokio::time::sleep_until(clock::timer(started.plus(pause))) => {}
        () = shared.listened_to.notified() => {}
    }
    Ok(())
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
