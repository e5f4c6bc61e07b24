//! One ProxySQL, kept as wanted: look, plan, apply, verify.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::admin::{Admin, AdminError};
use super::apply::{Applied, apply, save};
use super::by_hand::{self, Known};
use super::controller::{ByHand, Controller, Mode};
use super::held::{Held, refused};
use super::pace::Pace;
use super::plan::{Plan, Scope, plan};
use super::read::{count_gated, glance, snapshot};
use super::rows::{Glance, Snapshot};
use super::want::Want;
use crate::clock;
use crate::moment::Moment;

/// Between two attempts to reach an instance.
const RETRY: Duration = Duration::from_secs(1);
/// Between two looks at the count of gated queries, which costs the instance a
/// global lock.
const GATED_INTERVAL: Duration = Duration::from_secs(60);
/// Everything is looked at this often, since a glance does not show what ProxySQL
/// shuns and takes back by itself.
const FULL_LOOK_INTERVAL: Duration = Duration::from_secs(5);

type Wants = Option<Arc<Vec<Want>>>;

/// What is remembered of an instance over its connections.
#[derive(Default)]
struct Memory {
    pace: Pace,
    gated: Option<(Moment, u64)>,
    gated_seen: bool,
    known: Known,
    scope: Scope,
    last: Option<(u64, u64)>,
    logged: Option<String>,
}

/// Keeps the instance with this number in step, until `stop`.
pub(super) async fn keep(controller: Arc<Controller>, number: usize, stop: CancellationToken) {
    let mut memory = Memory {
        scope: Scope {
            respected: BTreeSet::new(),
            managed: controller.managed_hostgroups(),
        },
        ..Memory::default()
    };
    let stats = &controller.stats[number];
    loop {
        let ended = tokio::select! {
            ended = serve(&controller, number, &mut memory) => ended,
            () = stop.cancelled() => return,
        };
        stats.up.store(false, Ordering::Release);
        if let Err(error) = ended {
            stats.errors.fetch_add(1, Ordering::Relaxed);
            *stats.error.lock() = Some(error.kind());
            let name = &controller.settings.instances[number].name;
            memory.say(format!("{name}: {error}"));
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY) => {}
            () = stop.cancelled() => return,
        }
    }
}

async fn serve(
    controller: &Controller,
    number: usize,
    memory: &mut Memory,
) -> Result<(), AdminError> {
    let mut wants = controller.wants.subscribe();
    let mut admin = Admin::connect(&controller.settings.instances[number]).await?;
    loop {
        let wanted = wants.borrow_and_update().clone();
        let (seen, again) = match wanted {
            Some(wanted) => step(controller, number, memory, &mut admin, &wanted).await?,
            None => (glance(&mut admin).await?, None),
        };
        let stats = &controller.stats[number];
        if !stats.up.swap(true, Ordering::AcqRel) {
            let instance = &controller.settings.instances[number].name;
            tracing::info!(instance, "ProxySQL answers");
        }
        *stats.error.lock() = None;
        wait(controller, &mut wants, &mut admin, &seen, again).await?;
    }
}

/// Waits until there is something to do: other wants, a changed instance, the
/// lease, or `again`.
async fn wait(
    controller: &Controller,
    wants: &mut watch::Receiver<Wants>,
    admin: &mut Admin,
    seen: &Glance,
    again: Option<Moment>,
) -> Result<(), AdminError> {
    let interval = controller.settings.interval;
    let full_look = clock::now().plus(FULL_LOOK_INTERVAL);
    loop {
        let next = clock::now().plus(interval);
        let until = again.map_or(next, |again| again.min(next));
        tokio::select! {
            // The sender lives as long as the controller.
            _ = wants.changed() => return Ok(()),
            () = controller.lease.changed.notified() => return Ok(()),
            () = tokio::time::sleep_until(clock::timer(until)) => {}
        }
        let due = again.is_some() || clock::now() >= full_look;
        if due || glance(admin).await? != *seen {
            return Ok(());
        }
    }
}

/// Looks, plans and applies. The result is what was looked at, and when to look
/// again although nothing may have changed: after what was held or put off.
async fn step(
    controller: &Controller,
    number: usize,
    memory: &mut Memory,
    admin: &mut Admin,
    wants: &[Want],
) -> Result<(Glance, Option<Moment>), AdminError> {
    let stats = &controller.stats[number];
    let mut snapshot = snapshot(admin).await?;
    let seen = snapshot.glance();
    memory.look_at_gating(admin, &mut snapshot).await?;
    memory.notice_restart(&snapshot, controller, number);
    notice_by_hand(controller, number, memory, &snapshot, wants);
    let todo = plan(&snapshot, wants, &memory.scope);
    stats
        .pending
        .store(todo.changes.len() as u64, Ordering::Relaxed);
    let held = held(controller, number, &snapshot, &todo);
    stats.held.lock().clone_from(&held);
    let now = clock::now();
    if todo.is_empty() {
        memory.logged = None;
        memory.known = Known::of(&snapshot, wants);
        controller.saw_hints(number, &snapshot.runtime);
        return Ok((seen, None));
    }
    if let Some(held) = held {
        let name = &controller.settings.instances[number].name;
        memory.say(format!(
            "{name}: {} changes are held back: {held}",
            todo.changes.len()
        ));
        controller.saw_hints(number, &snapshot.runtime);
        return Ok((seen, Some(now.plus(controller.settings.interval))));
    }
    if let Some(at) = memory
        .pace
        .until(now, controller.settings.load_interval_min)
    {
        return Ok((seen, Some(at)));
    }
    let again = carry_out(controller, number, memory, admin, &snapshot, wants, &todo).await?;
    Ok((seen, Some(again)))
}

async fn carry_out(
    controller: &Controller,
    number: usize,
    memory: &mut Memory,
    admin: &mut Admin,
    snapshot: &Snapshot,
    wants: &[Want],
    todo: &Plan,
) -> Result<Moment, AdminError> {
    let stats = &controller.stats[number];
    let started = clock::now();
    let may_load = || controller.lease.is_held(clock::now());
    memory.pace.load(started);
    let applied = apply(admin, snapshot, wants, &memory.scope, todo, may_load).await?;
    let took = clock::now().since(started);
    let after = match applied {
        Applied::Overtaken => {
            memory.pace.take_back();
            return Ok(clock::now());
        }
        Applied::Verified(after) => after,
        Applied::Unverified(after, left) => {
            stats.unverified.fetch_add(1, Ordering::Relaxed);
            let name = &controller.settings.instances[number].name;
            let left: Vec<String> = left.changes.iter().map(ToString::to_string).collect();
            memory.say(format!(
                "{name}: after a LOAD this is not as wanted: {}",
                left.join("; ")
            ));
            after
        }
    };
    stats.loads.fetch_add(1, Ordering::Relaxed);
    stats
        .rows_changed
        .fetch_add(todo.changes.len() as u64, Ordering::Relaxed);
    let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    stats.apply_us.fetch_add(took_us, Ordering::Relaxed);
    for change in &todo.changes {
        let instance = &controller.settings.instances[number].name;
        tracing::info!(
            instance,
            hostgroup = change.hostgroup,
            server = change.server,
            why = ?change.why,
            "{}", change.what
        );
    }
    memory.last = Some((after.uptime_s, after.loads));
    memory.known = Known::of(&after, wants);
    controller.saw_hints(number, &after.runtime);
    if todo.adds_rows && controller.settings.save_to_disk {
        save(admin, &memory.scope.managed, &after).await?;
    }
    // Once more: what was left, or came up meanwhile.
    Ok(clock::now().plus(controller.settings.load_interval_min))
}

/// What speaks against a LOAD.
fn held(controller: &Controller, number: usize, snapshot: &Snapshot, todo: &Plan) -> Option<Held> {
    if todo.is_empty() {
        return None;
    }
    if controller.settings.mode == Mode::Plan {
        return Some(Held::PlanOnly);
    }
    if let Some(writer) = cluster_writer(controller, number, snapshot) {
        return Some(Held::Cluster(writer));
    }
    if let Some(held) = refused(snapshot, &controller.settings.managed, todo) {
        return Some(held);
    }
    (!controller.lease.is_held(clock::now())).then_some(Held::NoLease)
}

/// In a ProxySQL Cluster one node is written to and the others follow: the first
/// of the configured ones that answers. The name of that one, if it is another.
fn cluster_writer(controller: &Controller, number: usize, snapshot: &Snapshot) -> Option<String> {
    if snapshot.cluster.is_empty() {
        return None;
    }
    let first = (0..number).find(|other| controller.stats[*other].up.load(Ordering::Acquire))?;
    Some(controller.settings.instances[first].name.clone())
}

fn notice_by_hand(
    controller: &Controller,
    number: usize,
    memory: &mut Memory,
    snapshot: &Snapshot,
    wants: &[Want],
) {
    let stats = &controller.stats[number];
    let instance = &controller.settings.instances[number].name;
    // Another Causeway that held the lease is nobody's hand.
    if !controller.lease.is_held(clock::now()) {
        memory.known = Known::default();
    }
    for key in by_hand::changed(&memory.known, snapshot) {
        stats.by_hand.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(instance, row = %key, "changed by hand in a managed hostgroup");
        if controller.settings.by_hand == ByHand::Respect {
            memory.scope.respected.insert(key);
        }
    }
    memory
        .scope
        .respected
        .retain(|key| !by_hand::as_wanted(snapshot, wants, key));
    stats
        .respected
        .store(memory.scope.respected.len() as u64, Ordering::Relaxed);
}

impl Memory {
    async fn look_at_gating(
        &mut self,
        admin: &mut Admin,
        snapshot: &mut Snapshot,
    ) -> Result<(), AdminError> {
        let now = clock::now();
        let due = self
            .gated
            .is_none_or(|(at, _)| now.since(at) >= GATED_INTERVAL);
        if snapshot.version.load_can_deadlock() && due {
            let count = count_gated(admin).await?;
            self.gated_seen = self.gated.is_some_and(|(_, before)| count > before);
            self.gated = Some((now, count));
        }
        snapshot.gating.queries = self.gated_seen;
        Ok(())
    }

    /// A restarted instance counts from 1 again, and forgot what was not saved.
    fn notice_restart(&mut self, snapshot: &Snapshot, controller: &Controller, number: usize) {
        let now = (snapshot.uptime_s, snapshot.loads);
        if let Some((uptime, loads)) = self.last
            && (snapshot.uptime_s < uptime || snapshot.loads < loads)
        {
            let stats = &controller.stats[number];
            stats.restarts.fetch_add(1, Ordering::Relaxed);
            let instance = &controller.settings.instances[number].name;
            tracing::warn!(instance, "ProxySQL was restarted: unsaved changes are gone");
            self.known = Known::default();
            self.scope.respected.clear();
            self.gated = None;
        }
        self.last = Some(now);
    }

    /// Logs what is wrong, once until it changes.
    fn say(&mut self, text: String) {
        if self.logged.as_ref() != Some(&text) {
            tracing::warn!("ProxySQL {text}");
            self.logged = Some(text);
        }
    }
}
