//! Keeps ProxySQL's managed hostgroups as they should be.
//!
//! One task, the judge, turns what is known of the fleet into wants. One task
//! per instance compares them with its tables and applies the difference, when
//! nothing speaks against a LOAD. An instance that is down, refuses the login or
//! hangs delays nobody else.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::admin::AdminLogin;
use super::held::Held;
use super::hints::{self, Hints};
use super::instance;
use super::lease::{self, Lease};
use super::rows::{Address, Rows};
use super::tier::{Members, Tier};
use super::want::{Managed, Want, wants};
use crate::clock;
use crate::fleet::{FleetView, Role, ServerIx, ServerSpec, ServerView};
use crate::moment::Moment;
use crate::observe::{Hub, Login};

/// Least time between two looks of the judge: a bound on its own cost.
const JUDGE_PAUSE: Duration = Duration::from_millis(5);
/// Without any news the judge looks again after this.
const JUDGE_IDLE: Duration = Duration::from_secs(1);
/// Servers that never answered are waited for this long before the first plan.
const SETTLE: Duration = Duration::from_secs(5);

/// Whether differences are applied or only shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Applied.
    #[default]
    Apply,
    /// Only logged and counted.
    Plan,
}

/// What happens to rows of managed hostgroups that somebody changed by hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ByHand {
    /// They are put right.
    #[default]
    Repair,
    /// They are left alone until they are as wanted again, or a restart.
    Respect,
}

/// Everything there is to say about ProxySQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The instances.
    pub instances: Vec<AdminLogin>,
    /// Whether differences are applied.
    pub mode: Mode,
    /// What happens to changes by hand.
    pub by_hand: ByHand,
    /// The name of the advisory lock on the source; `{host}` in it stands for this
    /// host's name.
    pub lease: String,
    /// Time between two looks at an instance.
    pub interval: Duration,
    /// Least time between two LOADs of an instance.
    pub load_interval_min: Duration,
    /// Added rows are also written to the disk of the instance.
    pub save_to_disk: bool,
    /// The managed hostgroups.
    pub managed: Managed,
}

/// Counters and the state of one instance.
#[derive(Debug, Default)]
pub struct InstanceStats {
    /// LOADs since the start.
    pub loads: AtomicU64,
    /// Time spent in applying, in microseconds.
    pub apply_us: AtomicU64,
    /// Rows changed in force.
    pub rows_changed: AtomicU64,
    /// Rows of managed hostgroups that somebody changed by hand.
    pub by_hand: AtomicU64,
    /// Rows left alone since somebody changed them by hand.
    pub respected: AtomicU64,
    /// Applications after which something was not as wanted.
    pub unverified: AtomicU64,
    /// Failed looks and applications.
    pub errors: AtomicU64,
    /// Restarts seen.
    pub restarts: AtomicU64,
    /// The instance answers.
    pub up: AtomicBool,
    /// Rows that differ from what is wanted.
    pub pending: AtomicU64,
    /// Why they are not changed.
    pub held: Mutex<Option<Held>>,
    /// The newest error.
    pub error: Mutex<Option<&'static str>>,
}

/// The controller of all instances.
#[derive(Debug)]
pub struct Controller {
    /// The settings.
    pub settings: Settings,
    /// Per instance, in the order of the settings.
    pub stats: Vec<InstanceStats>,
    pub(super) hub: Arc<Hub>,
    pub(super) addresses: Vec<Address>,
    pub(super) lease: Arc<Lease>,
    pub(super) wants: watch::Sender<Option<Arc<Vec<Want>>>>,
    members: Mutex<Vec<Members>>,
    hints: Arc<Hints>,
    /// Per instance, the servers whose hint hostgroup was seen in force.
    in_force: Mutex<Vec<Option<BTreeSet<ServerIx>>>>,
}

impl Controller {
    /// Starts to keep every instance in step; it ends with `stop`.
    pub(crate) fn start(
        settings: Settings,
        servers: &[ServerSpec],
        hub: &Arc<Hub>,
        login: &Arc<Login>,
        stop: &CancellationToken,
        tasks: &TaskTracker,
    ) -> Arc<Self> {
        let instances = settings.instances.len();
        let controller = Arc::new(Self {
            stats: settings
                .instances
                .iter()
                .map(|_| InstanceStats::default())
                .collect(),
            hub: Arc::clone(hub),
            addresses: servers.iter().map(Address::of).collect(),
            lease: Arc::default(),
            wants: watch::Sender::new(None),
            members: Mutex::default(),
            hints: Arc::default(),
            in_force: Mutex::new(vec![None; instances]),
            settings,
        });
        let name = lease::name(&controller.settings.lease);
        let lease = Arc::clone(&controller.lease);
        tasks.spawn(lease::keep(
            lease,
            Arc::clone(hub),
            Arc::clone(login),
            name,
            stop.clone(),
        ));
        tasks.spawn(judge(Arc::clone(&controller), stop.clone()));
        for instance in 0..instances {
            tasks.spawn(instance::keep(
                Arc::clone(&controller),
                instance,
                stop.clone(),
            ));
        }
        controller
    }

    /// The hostgroups that reads can be sent to by a comment.
    pub fn hints(&self) -> &Arc<Hints> {
        &self.hints
    }

    pub(super) fn managed_hostgroups(&self) -> BTreeSet<u32> {
        self.settings.managed.hostgroups(self.addresses.len())
    }

    /// What each tier offers now, in the order of the settings.
    pub fn members(&self) -> Vec<Members> {
        self.members.lock().clone()
    }

    /// True when this process is the one writer now.
    pub fn holds_lease(&self) -> bool {
        self.lease.is_held(clock::now())
    }

    /// Notes which hint hostgroups an instance has in force. Those that all
    /// instances have are published.
    pub(super) fn saw_hints(&self, instance: usize, runtime: &Rows) {
        let Some(hints) = self.settings.managed.hints else {
            return;
        };
        let mut in_force = self.in_force.lock();
        in_force[instance] = Some(hints::in_force(hints, &self.addresses, runtime));
        let everywhere = |server: &ServerIx| {
            let here = |seen: &BTreeSet<ServerIx>| seen.contains(server);
            in_force.iter().flatten().all(here)
        };
        let of = |server: &ServerView| {
            Some(server.ix)
                .filter(everywhere)
                .map(|ix| hints.hostgroup(ix))
        };
        let by_server = self.hub.view().servers.iter().map(of).collect();
        self.hints.publish(by_server);
    }
}

/// Turns what is known of the fleet into wants, for as long as the process runs.
async fn judge(controller: Arc<Controller>, stop: CancellationToken) {
    let managed = &controller.settings.managed;
    let mut tiers: Vec<Tier> = managed.tiers.iter().cloned().map(Tier::new).collect();
    let started = clock::now();
    loop {
        let view = Arc::clone(&controller.hub.view());
        let now = clock::now();
        if is_settled(&view) || now.since(started) > SETTLE {
            publish(&controller, &mut tiers, &view, now);
        }
        let deadline = tiers
            .iter()
            .filter_map(|tier| tier.deadline(&view, now))
            .min();
        let deadline = deadline
            .unwrap_or(now.plus(JUDGE_IDLE))
            .min(now.plus(JUDGE_IDLE));
        tokio::select! {
            () = controller.hub.wait_for_change(&view, deadline) => {}
            () = stop.cancelled() => return,
        }
        tokio::time::sleep(JUDGE_PAUSE).await;
    }
}

/// There is a source, and of every other server it is known how stale it is, or
/// what is wrong with it.
pub(crate) fn is_settled(view: &FleetView) -> bool {
    let known = |server: &ServerView| {
        let judged = server.role == Role::Source || server.fresh_as_of.is_some();
        server.fault().is_some() || (server.usable && judged)
    };
    view.source().is_some() && view.servers.iter().all(known)
}

fn publish(controller: &Controller, tiers: &mut [Tier], view: &FleetView, now: Moment) {
    let managed = &controller.settings.managed;
    let members: Vec<Members> = tiers
        .iter_mut()
        .map(|tier| tier.update(view, now))
        .collect();
    let wanted = wants(view, managed, &members, &controller.addresses);
    *controller.members.lock() = members;
    controller.wants.send_if_modified(|current| {
        let differs = current.as_ref().is_none_or(|current| **current != wanted);
        if differs {
            *current = Some(Arc::new(wanted));
        }
        differs
    });
}
