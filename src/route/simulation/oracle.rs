//! The judge: it knows what every server really showed, and when.

use std::time::Duration;

use super::Simulation;
use super::network::gtid;
use crate::fleet::{FleetView, Role};
use crate::gtid::GtidSet;
use crate::route::{Consistency, Decision, Policy};

/// What a read must show, as of when its request arrived.
#[derive(Clone, Debug)]
pub(super) struct Owed {
    must_show: GtidSet,
    pub(super) consistency: Consistency,
    bound: Option<Duration>,
    /// The server was reset and nobody could know yet.
    excused: bool,
}

/// What a run came to.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) violations: Vec<String>,
    pub(super) checked: u64,
    pub(super) on_replicas: u64,
    pub(super) degraded: u64,
    pub(super) failed: u64,
    pub(super) excused: u64,
    pub(super) fenced: u64,
    pub(super) located: u64,
    pub(super) waited: u64,
    pub(super) losses: u64,
    pub(super) resets: u64,
    pub(super) dropped: u64,
    pub(super) settled: u64,
    pub(super) expired: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        self.checked += other.checked;
        self.on_replicas += other.on_replicas;
        self.degraded += other.degraded;
        self.failed += other.failed;
        self.excused += other.excused;
        self.fenced += other.fenced;
        self.located += other.located;
        self.waited += other.waited;
        self.losses += other.losses;
        self.resets += other.resets;
        self.dropped += other.dropped;
        self.settled += other.settled;
        self.expired += other.expired;
    }
}

impl Simulation {
    pub(super) fn owed(&self, app: usize, policy: &Policy) -> Owed {
        let app = &self.apps[app];
        let mut must_show = GtidSet::default();
        match policy.consistency {
            Consistency::Eventual | Consistency::Bounded => {}
            Consistency::Monotonic => must_show = app.seen.clone(),
            Consistency::ReadYourWrites => must_show = app.written.clone(),
            Consistency::Session => must_show = app.seen.union(&app.written),
            // Linearizable: what committed, and what anybody was shown.
            Consistency::Strong => must_show = self.committed.union(&self.shown_to_anyone),
        }
        Owed {
            must_show,
            consistency: policy.consistency,
            bound: policy.max_staleness,
            excused: false,
        }
    }

    /// Completes what is owed by what only the decision fixes.
    pub(super) fn decided(&mut self, view: &FleetView, owed: &mut Owed, decision: &Decision) {
        if decision.lost.is_some() {
            let violation = format!("nothing is ever lost here: {decision:?}");
            self.tally.violations.push(violation);
        }
        let life = view.server(decision.server).life;
        owed.excused = self.nodes[decision.server.index()].ended == Some(life);
        let Some(bound) = owed.bound else { return };
        let by = self
            .now
            .saturating_sub(u64::try_from(bound.as_micros()).expect("short"));
        let old = self.executed_at.iter().filter(|(_, at)| **at <= by);
        let old: GtidSet = old.map(|(gno, _)| gtid(*gno)).collect();
        owed.must_show.union_with(&old);
    }

    pub(super) fn judge(
        &mut self,
        app: usize,
        decision: &Decision,
        owed: &Owed,
        same_era: bool,
        shown: &GtidSet,
    ) {
        if decision.degraded {
            self.tally.degraded += 1;
            return;
        }
        if owed.excused || !same_era {
            self.tally.excused += 1;
            return;
        }
        self.tally.checked += 1;
        self.tally.on_replicas += u64::from(decision.role == Role::Replica);
        let missing = owed.must_show.subtract(shown);
        if !missing.is_empty() {
            let violation = format!(
                "at {} µs: {:?} read of session {app} misses {missing}: {decision:?}",
                self.now, owed.consistency
            );
            self.tally.violations.push(violation);
        }
    }
}
