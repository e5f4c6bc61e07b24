//! "What have you executed as of now": one query for all who ask at once.
//!
//! A query that was already under way when somebody asked proves nothing about
//! the moment of asking, so newcomers wait for the next one. (The same rule as
//! for a `ReadIndex` in Raft, Ongaro 2014, section 6.4.)

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mysql_async::Conn;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use super::Target;
use super::pacer::Pacer;
use super::query::{Reader, owned_and_executed};
use crate::clock;
use crate::fleet::{Event, Fault, Identity};
use crate::moment::Moment;
use crate::route::Fence;

/// An unused connection is tried this often.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Why a fence gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FenceError {
    /// There is no source to ask.
    #[error("no source")]
    NoSource,
    /// No answer before the deadline.
    #[error("no answer in time")]
    Timeout,
    /// The connection broke.
    #[error("connection lost")]
    Lost,
}

type Reply = oneshot::Sender<Arc<Fence>>;

/// Who asked one server for its state and has not been answered.
#[derive(Debug, Default)]
pub(super) struct Fences {
    asked: Mutex<Vec<Reply>>,
    arrived: Notify,
}

impl Fences {
    /// Asks, and waits for the answer.
    pub(super) async fn ask(&self, deadline: Moment) -> Result<Arc<Fence>, FenceError> {
        let (reply, answer) = oneshot::channel();
        self.asked.lock().push(reply);
        self.arrived.notify_one();
        match tokio::time::timeout_at(clock::timer(deadline), answer).await {
            Ok(Ok(fence)) => Ok(fence),
            Ok(Err(_)) => Err(FenceError::Lost),
            Err(_) => Err(FenceError::Timeout),
        }
    }

    /// Tells everyone that there will be no answer.
    pub(super) fn fail_all(&self) {
        self.asked.lock().clear();
    }

    fn take(&self) -> Vec<Reply> {
        std::mem::take(&mut *self.asked.lock())
    }
}

/// Answers fences until the connection is of no use any more.
pub(super) async fn serve(target: Target, mut conn: Conn, identity: Identity) -> Fault {
    let pacer = Pacer::new(target.settings.fences_per_second_max);
    let mut reader = Reader::of(&identity);
    let shared = target.hub.server(target.ix);
    loop {
        let idle = tokio::time::timeout(KEEP_ALIVE, shared.fences.arrived.notified())
            .await
            .is_err();
        if !idle {
            pacer.turn().await;
        }
        // Taken just before the query is sent: all of them asked before it.
        let replies = shared.fences.take();
        if replies.is_empty() && !idle {
            continue;
        }
        if let Err(fault) = answer(&target, &mut conn, &mut reader, replies).await {
            return fault;
        }
    }
}

async fn answer(
    target: &Target,
    conn: &mut Conn,
    reader: &mut Reader,
    replies: Vec<Reply>,
) -> Result<(), Fault> {
    let shared = target.hub.server(target.ix);
    shared.stats.fence_queries.fetch_add(1, Ordering::Relaxed);
    let (owned, sample) = owned_and_executed(conn, reader, target.settings.query_timeout).await?;
    let fence = Arc::new(Fence::new(&owned, Arc::clone(&sample.set)));
    target.hub.observe(target.ix, Event::Executed(sample));
    for reply in replies {
        // Whoever asked may have given up meanwhile.
        drop(reply.send(Arc::clone(&fence)));
    }
    Ok(())
}
