//! Planning and applying once, from the command line.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::admin::{Admin, AdminError, AdminLogin};
use super::apply::{Applied, apply, save};
use super::controller::{Settings, is_settled};
use super::held::{Held, refused};
use super::lease::{self, Lease};
use super::plan::{Plan, Scope, plan};
use super::read::{count_gated, snapshot};
use super::rows::{Address, Snapshot};
use super::tier::Tier;
use super::want::{Want, wants};
use crate::clock;
use crate::config::Config;
use crate::fleet::FleetView;
use crate::observe::{self, Hub};

/// Servers are given this long to answer.
const SETTLE: Duration = Duration::from_secs(5);
/// The lease is waited for this long.
const LEASE_WAIT: Duration = Duration::from_secs(4);
/// Gated queries are counted twice, this far apart.
const GATED_WATCH: Duration = Duration::from_millis(500);
/// A plan that was overtaken is made anew at most this many times.
const ATTEMPTS: usize = 5;
const OVERTAKEN: &str = "nothing was loaded: its tables changed while the plan was applied, again \
                         and again, or the lease was lost; try again";

/// How one instance stands.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// The instance's name.
    pub instance: String,
    /// Its admin address.
    pub address: String,
    /// Why it could not be looked at or changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What is to change, or was changed.
    pub plan: Plan,
    /// Why it is not, or was not, changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// The plan was applied and verified.
    pub applied: bool,
}

/// Observes the servers until they are known, and works out what every instance
/// should hold; with `change`, makes it so.
///
/// # Errors
/// When the fleet has no source, or the lease is held by another Causeway.
pub async fn run(
    config: &Config,
    settings: &Settings,
    change: bool,
) -> anyhow::Result<Vec<Outcome>> {
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    let login = Arc::new(config.login.clone());
    let hub = observe::start(&config.servers, &login, &config.observe, &stop, &tasks);
    let outcome = observed(config, settings, &hub, change, &stop, &tasks).await;
    stop.cancel();
    tasks.close();
    tasks.wait().await;
    outcome
}

async fn observed(
    config: &Config,
    settings: &Settings,
    hub: &Arc<Hub>,
    change: bool,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> anyhow::Result<Vec<Outcome>> {
    let view = settled(hub).await?;
    let lease = Arc::new(Lease::default());
    if change {
        let (login, name) = (Arc::new(config.login.clone()), lease::name(&settings.lease));
        let hub = Arc::clone(hub);
        tasks.spawn(lease::keep(
            Arc::clone(&lease),
            hub,
            login,
            name,
            stop.clone(),
        ));
        hold(&lease, &lease::name(&settings.lease)).await?;
    }
    let addresses: Vec<Address> = config.servers.iter().map(Address::of).collect();
    let now = clock::now();
    let judge = |spec: &super::tier::TierSpec| Tier::new(spec.clone()).update(&view, now);
    let members: Vec<_> = settings.managed.tiers.iter().map(judge).collect();
    let wants = wants(&view, &settings.managed, &members, &addresses);
    let mut outcomes = Vec::with_capacity(settings.instances.len());
    let mut written_cluster = false;
    for login in &settings.instances {
        let once = Once {
            settings,
            wants: &wants,
            lease: change.then_some(&*lease),
            servers: addresses.len(),
        };
        outcomes.push(once.instance(login, &mut written_cluster).await);
    }
    Ok(outcomes)
}

async fn settled(hub: &Hub) -> anyhow::Result<Arc<FleetView>> {
    let deadline = clock::now().plus(SETTLE);
    loop {
        let view = Arc::clone(&hub.view());
        if is_settled(&view) {
            return Ok(view);
        }
        if clock::now() >= deadline {
            return match &view.source {
                Ok(_) => Ok(view),
                Err(error) => Err(anyhow::anyhow!("no source: {error}")),
            };
        }
        hub.wait_for_change(&view, deadline).await;
    }
}

async fn hold(lease: &Lease, name: &str) -> anyhow::Result<()> {
    let changed = lease.changed.notified();
    if lease.is_held(clock::now()) {
        return Ok(());
    }
    let got = tokio::time::timeout(LEASE_WAIT, changed).await;
    if got.is_ok() && lease.is_held(clock::now()) {
        return Ok(());
    }
    anyhow::bail!(
        "the lease {name:?} on the source is not to be had: another Causeway holds it and keeps \
         ProxySQL in step, or the source does not answer"
    )
}

/// What is the same for every instance.
struct Once<'a> {
    settings: &'a Settings,
    wants: &'a [Want],
    /// Given when changes are to be made.
    lease: Option<&'a Lease>,
    servers: usize,
}

impl Once<'_> {
    async fn instance(&self, login: &AdminLogin, written_cluster: &mut bool) -> Outcome {
        let mut outcome = Outcome {
            instance: login.name.clone(),
            address: login.address.clone(),
            error: None,
            plan: Plan::default(),
            held: None,
            applied: false,
        };
        if let Err(error) = self
            .try_instance(login, written_cluster, &mut outcome)
            .await
        {
            outcome.error = Some(error.to_string());
        }
        outcome
    }

    async fn try_instance(
        &self,
        login: &AdminLogin,
        written_cluster: &mut bool,
        outcome: &mut Outcome,
    ) -> Result<(), AdminError> {
        let mut admin = Admin::connect(login).await?;
        for _ in 0..ATTEMPTS {
            outcome.error = None;
            let seen = look(&mut admin).await?;
            outcome.plan = plan(&seen, self.wants, &self.scope());
            if outcome.plan.is_empty() {
                outcome.applied = self.lease.is_some();
                break;
            }
            outcome.held = refused(&seen, &self.settings.managed, &outcome.plan);
            if *written_cluster && !seen.cluster.is_empty() {
                outcome.held = Some(Held::Cluster("an earlier instance".to_owned()));
            }
            if outcome.held.is_some() || self.lease.is_none() {
                break;
            }
            if self.apply(&mut admin, &seen, outcome).await? {
                *written_cluster |= !seen.cluster.is_empty();
                break;
            }
            outcome.error = Some(OVERTAKEN.to_owned());
        }
        admin.close().await;
        Ok(())
    }

    fn scope(&self) -> Scope {
        Scope {
            respected: BTreeSet::new(),
            managed: self.settings.managed.hostgroups(self.servers),
        }
    }

    /// True when it is done, one way or another; false when it was overtaken.
    async fn apply(
        &self,
        admin: &mut Admin,
        seen: &Snapshot,
        outcome: &mut Outcome,
    ) -> Result<bool, AdminError> {
        let may_load = || self.lease.is_some_and(|lease| lease.is_held(clock::now()));
        let scope = self.scope();
        let applied = apply(admin, seen, self.wants, &scope, &outcome.plan, may_load).await?;
        match applied {
            Applied::Overtaken => return Ok(false),
            Applied::Verified(after) => {
                outcome.applied = true;
                if outcome.plan.adds_rows && self.settings.save_to_disk {
                    save(admin, &scope.managed, &after).await?;
                }
            }
            Applied::Unverified(_, left) => {
                let left: Vec<String> = left.changes.iter().map(ToString::to_string).collect();
                outcome.error = Some(format!(
                    "after the LOAD this is not as wanted: {}",
                    left.join("; ")
                ));
            }
        }
        Ok(true)
    }
}

/// A snapshot, with a short look at whether gated queries are under way.
async fn look(admin: &mut Admin) -> Result<Snapshot, AdminError> {
    let mut seen = snapshot(admin).await?;
    if seen.version.load_can_deadlock() && !seen.gating.in_use() {
        let before = count_gated(admin).await?;
        if before > 0 {
            tokio::time::sleep(GATED_WATCH).await;
            seen.gating.queries = count_gated(admin).await? > before;
        }
    }
    Ok(seen)
}
