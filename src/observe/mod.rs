//! MySQL servers → events: the barrier pump, the fence and the status poll.
//!
//! For every server Causeway holds a few connections, each in a task of its own
//! that never waits for another server:
//!
//! - the **pump** waits on the server for the next transaction and so learns the
//!   executed set when it grows, at a bounded pace;
//! - the **barriers** wait with `WAIT_FOR_EXECUTED_GTID_SET` for what routed
//!   reads are waiting for;
//! - the **fence** answers "what have you executed as of now", one query for all
//!   who ask at once;
//! - the **status poll** learns roles and replication details, slowly.
//!
//! All of them report to the [`Hub`], which owns the fleet state. Nothing here
//! decides where a read goes.

mod aim;
mod backoff;
pub(crate) mod connect;
mod fence;
mod hub;
mod lane;
mod pacer;
pub(crate) mod poll;
mod query;
pub(crate) mod statements;
mod waiters;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use connect::connect;
pub use connect::{Login, Tls};
pub use hub::{Hub, ServerStats};
use mysql_async::Conn;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock;
use crate::fleet::{Event, Fault, FleetView, Identity, ServerIx, ServerSpec};

/// How hard to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Time between two status polls of a server.
    pub status_interval: Duration,
    /// Least time between two answers of a pump nobody waits for.
    pub pump_interval: Duration,
    /// Longest a pump waits on the source without news: bounds the staleness
    /// that an idle source shows.
    pub source_heartbeat: Duration,
    /// Longest a pump waits on a replica without news: a hung server is noticed
    /// a second after that.
    pub replica_heartbeat: Duration,
    /// Barrier connections per server.
    pub barriers: usize,
    /// Most pump and barrier queries per second to one server.
    pub queries_per_second_max: u32,
    /// Most fence queries per second to one server.
    pub fences_per_second_max: u32,
    /// Deadline of every connection attempt and every plain query.
    pub query_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            status_interval: Duration::from_secs(1),
            pump_interval: Duration::from_millis(5),
            source_heartbeat: Duration::from_millis(100),
            replica_heartbeat: Duration::from_millis(500),
            barriers: 2,
            queries_per_second_max: 2000,
            fences_per_second_max: 1000,
            query_timeout: Duration::from_secs(2),
        }
    }
}

/// Starts the observation of every server; it ends with `stop`.
pub fn start(
    specs: &[ServerSpec],
    login: &Arc<Login>,
    settings: &Settings,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> Arc<Hub> {
    let hub = Arc::new(Hub::new(specs, settings));
    for target in targets(specs, login, settings, &hub) {
        look_at(tasks, stop, &target);
        for _ in 0..settings.barriers.max(1) {
            spawn(tasks, stop, target.clone(), Turn::Later, lane::barriers);
        }
        spawn(tasks, stop, target, Turn::Later, fence::serve);
    }
    hub
}

/// As [`start`], for a hub of which nobody asks questions: without barriers and
/// fences, two connections to a server.
pub fn watch(
    specs: &[ServerSpec],
    login: &Arc<Login>,
    settings: &Settings,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> Arc<Hub> {
    let hub = Arc::new(Hub::new(specs, settings));
    for target in targets(specs, login, settings, &hub) {
        look_at(tasks, stop, &target);
    }
    hub
}

fn look_at(tasks: &TaskTracker, stop: &CancellationToken, target: &Target) {
    spawn(tasks, stop, target.clone(), Turn::First, lane::pump);
    spawn(tasks, stop, target.clone(), Turn::First, poll::serve);
}

fn targets(
    specs: &[ServerSpec],
    login: &Arc<Login>,
    settings: &Settings,
    hub: &Arc<Hub>,
) -> Vec<Target> {
    let target = |(i, spec): (usize, &ServerSpec)| Target {
        ix: ServerIx(u16::try_from(i).expect("a fleet has at most 65,536 servers")),
        address: spec.address.clone(),
        login: Arc::clone(login),
        settings: settings.clone(),
        hub: Arc::clone(hub),
    };
    specs.iter().enumerate().map(target).collect()
}

/// One server and what is needed to talk to it.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) ix: ServerIx,
    pub(crate) address: String,
    pub(crate) login: Arc<Login>,
    pub(crate) settings: Settings,
    pub(crate) hub: Arc<Hub>,
}

/// When a connection may be made. A server that has no room for all of them must
/// not refuse the two without which nothing is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    First,
    /// Once the server is known.
    Later,
}

impl Turn {
    async fn comes(self, target: &Target) {
        let known = |view: &FleetView| {
            let server = view.server(target.ix);
            server.executed().is_some() && server.status().is_some()
        };
        loop {
            let view = Arc::clone(&target.hub.view());
            if self == Self::First || known(&view) {
                return;
            }
            let again = clock::now().plus(target.settings.status_interval);
            target.hub.wait_for_change(&view, again).await;
        }
    }
}

/// Keeps one connection for good: connects, runs its task until that ends, and
/// starts again. A panic counts as an error of the connection and stays in here.
fn spawn<F, R>(tasks: &TaskTracker, stop: &CancellationToken, target: Target, turn: Turn, run: F)
where
    F: Fn(Target, Conn, Identity) -> R + Clone + Send + 'static,
    R: Future<Output = Fault> + Send + 'static,
{
    let stop = stop.clone();
    tasks.spawn(async move {
        let mut backoff = backoff::Backoff::default();
        loop {
            tokio::select! {
                () = turn.comes(&target) => {}
                () = stop.cancelled() => return,
            }
            let started = clock::now();
            let mut life = tokio::spawn(one_life(target.clone(), run.clone()));
            let ended = tokio::select! {
                ended = &mut life => ended,
                () = stop.cancelled() => {
                    life.abort();
                    return;
                }
            };
            let panicked =
                |panic| End::Broken(Fault::Unreadable(format!("internal error: {panic}")));
            let end = ended.unwrap_or_else(panicked);
            backoff.ran_for(clock::now().since(started));
            let pause = backoff.pause(end.fault());
            report(&target, end);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => return,
            }
        }
    });
}

/// How one connection ended.
enum End {
    /// It was never established.
    Refused(Fault),
    /// It was in use.
    Broken(Fault),
}

impl End {
    fn fault(&self) -> &Fault {
        match self {
            Self::Refused(fault) | Self::Broken(fault) => fault,
        }
    }
}

async fn one_life<F, R>(target: Target, run: F) -> End
where
    F: Fn(Target, Conn, Identity) -> R,
    R: Future<Output = Fault>,
{
    let connected = connect(
        &target.address,
        &target.login,
        target.settings.query_timeout,
    )
    .await;
    let (conn, identity) = match connected {
        Ok(connected) => connected,
        Err(fault) => return End::Refused(fault),
    };
    target
        .hub
        .observe(target.ix, Event::Identified(identity.clone()));
    let _established = Established::of(&target);
    End::Broken(run(target.clone(), conn, identity).await)
}

/// A connection that broke takes the server's evidence with it. One that could
/// not be made beside others that work (too many connections, say) does not.
fn report(target: &Target, end: End) {
    let others_work = target
        .hub
        .server(target.ix)
        .established
        .load(Ordering::Acquire)
        > 0;
    match end {
        End::Refused(fault) if others_work => {
            target
                .hub
                .stats(target.ix)
                .refused
                .fetch_add(1, Ordering::Relaxed);
            tracing::warn!(address = target.address, %fault, "one of several connections was refused");
        }
        End::Refused(fault) | End::Broken(fault) => {
            target.hub.observe(target.ix, Event::Lost(fault));
        }
    }
}

/// Counts an established connection while it lives.
struct Established(Target);

impl Established {
    fn of(target: &Target) -> Self {
        target
            .hub
            .server(target.ix)
            .established
            .fetch_add(1, Ordering::AcqRel);
        Self(target.clone())
    }
}

impl Drop for Established {
    fn drop(&mut self) {
        self.0
            .hub
            .server(self.0.ix)
            .established
            .fetch_sub(1, Ordering::AcqRel);
    }
}
