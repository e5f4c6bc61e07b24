//! The owner of the fleet state, and the place where everybody meets: events
//! come in, snapshots go out, waiting reads are told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::Settings;
use super::fence::{FenceError, Fences};
use super::pacer::Pacer;
use super::waiters::Waiters;
use crate::clock;
use crate::fleet::{Event, Fleet, FleetView, Notice, ServerIx, ServerSpec};
use crate::gtid::GtidSet;
use crate::moment::Moment;
use crate::requirement::Requirement;
use crate::route::Fence;

/// Counters of the questions put to one server.
#[derive(Debug, Default)]
pub struct ServerStats {
    /// Answers of the pump.
    pub pump_queries: AtomicU64,
    /// Barriers, whatever their outcome.
    pub barrier_queries: AtomicU64,
    /// Fence queries.
    pub fence_queries: AtomicU64,
    /// Requests that those fence queries answered.
    pub fence_requests: AtomicU64,
    /// Status polls.
    pub status_polls: AtomicU64,
    /// Times the evidence was lost.
    pub losses: AtomicU64,
    /// Connections refused while others to the same server worked.
    pub refused: AtomicU64,
}

/// What all tasks of one server share.
#[derive(Debug)]
pub(super) struct ServerHub {
    pub(super) waiters: Waiters,
    pub(super) fences: Fences,
    pub(super) pacer: Pacer,
    pub(super) stats: ServerStats,
    /// Asks for a status poll right away.
    pub(super) poll_now: Notify,
    /// Connections that are established.
    pub(super) established: AtomicUsize,
    /// Tells that something was observed of the server.
    news: Notify,
    /// Feeds to whose clients every transaction matters.
    listeners: AtomicUsize,
    /// Tells the pump that it is listened to from now on.
    pub(super) listened_to: Notify,
}

/// The fleet as observed.
#[derive(Debug)]
pub struct Hub {
    fleet: Mutex<Fleet>,
    view: ArcSwap<FleetView>,
    servers: Vec<ServerHub>,
    changed: Notify,
    query_timeout: Duration,
}

impl Hub {
    /// A hub for these servers; [`super::start`] feeds it.
    pub fn new(specs: &[ServerSpec], settings: &Settings) -> Self {
        let fleet = Fleet::new(specs);
        let server = |_: &ServerSpec| ServerHub {
            waiters: Waiters::default(),
            fences: Fences::default(),
            pacer: Pacer::new(settings.queries_per_second_max),
            stats: ServerStats::default(),
            poll_now: Notify::new(),
            established: AtomicUsize::new(0),
            news: Notify::new(),
            listeners: AtomicUsize::new(0),
            listened_to: Notify::new(),
        };
        Self {
            view: ArcSwap::from_pointee(fleet.view()),
            fleet: Mutex::new(fleet),
            servers: specs.iter().map(server).collect(),
            changed: Notify::new(),
            query_timeout: settings.query_timeout,
        }
    }

    /// The newest snapshot. Cheap: no lock, no copy.
    pub fn view(&self) -> arc_swap::Guard<Arc<FleetView>> {
        self.view.load()
    }

    /// Takes in what happened to a server, publishes, and tells who waited.
    pub fn observe(&self, server: ServerIx, event: Event) {
        if matches!(event, Event::Lost(_)) {
            self.servers[server.index()]
                .stats
                .losses
                .fetch_add(1, Ordering::Relaxed);
            self.servers[server.index()].fences.fail_all();
        }
        let mut fleet = self.fleet.lock();
        if !fleet.apply(server, event, clock::now()) {
            return;
        }
        let view = Arc::new(fleet.view());
        // Stored under the lock, so that an older view never follows a newer.
        self.view.store(Arc::clone(&view));
        let notices = fleet.take_notices();
        drop(fleet);
        self.servers[server.index()].waiters.release(&view, server);
        self.servers[server.index()].news.notify_waiters();
        self.changed.notify_waiters();
        for notice in &notices {
            self.tell(&view, notice);
        }
    }

    /// Raises the floor under all sessions to what every usable server has.
    pub fn raise_floor(&self, leave_out_lag: Option<Duration>) {
        let mut fleet = self.fleet.lock();
        if fleet.raise_floor(clock::now(), leave_out_lag) {
            self.view.store(Arc::new(fleet.view()));
        }
    }

    /// Waits until one of the servers meets its requirement; false when
    /// `deadline` came first.
    pub async fn wait(&self, on: &[(ServerIx, Requirement)], deadline: Moment) -> bool {
        let done = Arc::new(Notify::new());
        let _guards: SmallVec<[WaitGuard<'_>; 2]> = on
            .iter()
            .map(|(server, need)| self.enlist(*server, need, &done))
            .collect();
        let view = self.view.load_full();
        if on
            .iter()
            .any(|(server, need)| view.meets(view.server(*server), need))
        {
            return true;
        }
        tokio::time::timeout_at(clock::timer(deadline), done.notified())
            .await
            .is_ok()
    }

    fn enlist(&self, server: ServerIx, need: &Requirement, done: &Arc<Notify>) -> WaitGuard<'_> {
        let waiters = &self.servers[server.index()].waiters;
        WaitGuard {
            waiters,
            id: waiters.add(need.clone(), Arc::clone(done)),
        }
    }

    /// Waits until the fleet differs from `seen`, or `deadline`.
    pub async fn wait_for_change(&self, seen: &Arc<FleetView>, deadline: Moment) {
        let changed = self.changed.notified();
        if !Arc::ptr_eq(seen, &self.view.load()) {
            return;
        }
        // A timeout is an answer too: the caller looks again.
        tokio::time::timeout_at(clock::timer(deadline), changed)
            .await
            .unwrap_or_default();
    }

    /// Somebody waits for every transaction of the server, until the result is
    /// dropped: its pump then looks more often.
    pub fn listen(&self, server: ServerIx) -> Listening<'_> {
        let server = &self.servers[server.index()];
        server.listeners.fetch_add(1, Ordering::AcqRel);
        server.listened_to.notify_one();
        Listening(&server.listeners)
    }

    pub(super) fn is_listened_to(&self, server: ServerIx) -> bool {
        self.servers[server.index()]
            .listeners
            .load(Ordering::Acquire)
            > 0
    }

    /// Ready once something is observed of `server` after this call, whether or
    /// not it was awaited by then.
    pub fn news(&self, server: ServerIx) -> Notified<'_> {
        self.servers[server.index()].news.notified()
    }

    /// Learns the source's state as of some moment after this call.
    pub(crate) async fn fence(&self, deadline: Moment) -> Result<Arc<Fence>, FenceError> {
        let source = |view: &FleetView| view.source().map(|source| (source.ix, source.life));
        let before = source(&self.view.load()).ok_or(FenceError::NoSource)?;
        let fence = self.locate(before.0, deadline).await?;
        // The answer of a server that is not the source any more is no fence.
        if source(&self.view.load()) == Some(before) {
            Ok(fence)
        } else {
            Err(FenceError::NoSource)
        }
    }

    /// Learns a server's state as of some moment after this call.
    pub(crate) async fn locate(
        &self,
        server: ServerIx,
        deadline: Moment,
    ) -> Result<Arc<Fence>, FenceError> {
        let server = &self.servers[server.index()];
        server.stats.fence_requests.fetch_add(1, Ordering::Relaxed);
        server
            .fences
            .ask(deadline.min(clock::now().plus(self.query_timeout)))
            .await
    }

    /// The counters of one server.
    pub fn stats(&self, server: ServerIx) -> &ServerStats {
        &self.servers[server.index()].stats
    }

    /// Reads that wait for the server now.
    pub fn waiting(&self, server: ServerIx) -> usize {
        self.servers[server.index()].waiters.len()
    }

    pub(super) fn server(&self, server: ServerIx) -> &ServerHub {
        &self.servers[server.index()]
    }

    /// What a barrier for `need` still has to wait for.
    pub(super) fn missing(&self, server: ServerIx, need: &Requirement) -> GtidSet {
        let need = need.to_set();
        match self.view.load().server(server).executed() {
            Some(executed) => need.subtract(executed),
            None => need,
        }
    }

    fn tell(&self, view: &FleetView, notice: &Notice) {
        let name = |ix: &ServerIx| view.server(*ix).info.name.clone();
        match notice {
            Notice::Usable(ix) => tracing::info!(server = name(ix), "server answers"),
            Notice::Lost(ix, fault) => {
                tracing::warn!(server = name(ix), kind = fault.kind(), %fault, "server lost: its evidence is dropped");
            }
            Notice::NewEpoch(ix) => tracing::warn!(
                server = name(ix),
                "new epoch: another server, or its executed set shrank; evidence replaced"
            ),
            Notice::SourceIs(ix) => tracing::info!(server = name(ix), "source found"),
            Notice::NoSource(error) => tracing::warn!(%error, "no source"),
        }
        // Roles follow from status polls; after a loss they are due at once.
        if let Notice::Usable(ix) | Notice::Lost(ix, _) | Notice::NewEpoch(ix) = notice {
            self.servers[ix.index()].poll_now.notify_one();
        }
    }
}

/// Takes its waiter off the list, however the wait ends.
struct WaitGuard<'a> {
    waiters: &'a Waiters,
    id: u64,
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.waiters.remove(self.id);
    }
}

/// Counts somebody who waits for every transaction of a server.
#[derive(Debug)]
pub struct Listening<'a>(&'a AtomicUsize);

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
