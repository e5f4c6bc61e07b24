//! Which replicas a tier offers: a state machine per tier.
//!
//! A replica leaves at once when it is staler than the bound, or when nothing is
//! known of it. It comes back only after it was well within the bound (the
//! `enter` threshold) without a break for the dwell time, and not before twice
//! the dwell time has passed since it left: so a replica that swings around the
//! bound changes at most k + 1 times in any span of k dwell times that starts
//! with a change. A budget caps how many come back in a minute; leaving is never
//! capped, since a late leave is a broken promise.
//!
//! Pure: what is known and the time go in, the members and the next moment at
//! which they may change come out.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::fleet::{FleetView, Role, ServerIx, ServerView};
use crate::moment::Moment;

/// Members that come back are counted over this span.
const BUDGET_SPAN: Duration = Duration::from_secs(60);

/// What a tier offers when too few replicas are within the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LastResort {
    /// The source joins the replicas that are left.
    Source,
    /// The least stale replicas stand in, past the bound.
    LeastStale,
}

/// One tier, as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierSpec {
    /// The hostgroup that offers the replicas.
    pub hostgroup: u32,
    /// The bound: a staler replica leaves.
    pub max_staleness: Duration,
    /// A replica comes back when it is this fresh.
    pub enter: Duration,
    /// For how long it must have been.
    pub dwell: Duration,
    /// Fewer members than this call for the last resort.
    pub min_readers: usize,
    /// The last resort.
    pub last_resort: LastResort,
    /// Most replicas that come back in a minute.
    pub changes_per_minute_max: usize,
    /// Seconds of lag past which ProxySQL itself takes a replica out, should
    /// Causeway be gone; 0 for never.
    pub max_replication_lag: u32,
}

impl TierSpec {
    /// How long a replica that left stays away.
    fn rest(&self) -> Duration {
        self.dwell.saturating_mul(2)
    }
}

/// What a tier offers now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// The replicas within the bound.
    pub within: Vec<ServerIx>,
    /// Offered as the last resort.
    pub last_resort: Vec<ServerIx>,
}

impl Members {
    /// True when the server takes work of this tier.
    pub fn has(&self, server: ServerIx) -> bool {
        self.within.contains(&server) || self.last_resort.contains(&server)
    }
}

/// Where one replica stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    In,
    Out {
        left: Option<Moment>,
        /// Within the enter threshold since then, without a break.
        good_since: Option<Moment>,
    },
}

/// The state of one tier.
#[derive(Clone, Debug)]
pub struct Tier {
    spec: TierSpec,
    standings: BTreeMap<ServerIx, Standing>,
    entered: Vec<Moment>,
    /// Offered as the last resort since the last look.
    standing_in: Vec<ServerIx>,
    started: bool,
}

impl Tier {
    /// A tier of which nothing is decided yet.
    pub fn new(spec: TierSpec) -> Self {
        Self {
            spec,
            standings: BTreeMap::new(),
            entered: Vec::new(),
            standing_in: Vec::new(),
            started: false,
        }
    }

    /// The configuration.
    pub fn spec(&self) -> &TierSpec {
        &self.spec
    }

    /// Takes in what is known now; the result is what the tier offers.
    pub fn update(&mut self, view: &FleetView, now: Moment) -> Members {
        self.entered.retain(|at| now.since(*at) < BUDGET_SPAN);
        for server in &view.servers {
            let standing = self.next(view, server, now);
            self.standings.insert(server.ix, standing);
        }
        // The first look puts every fresh replica in, as far as the source is
        // known; from then on the rules hold.
        self.started |= view.source.is_ok();
        let members = self.members(view, now);
        self.standing_in.clone_from(&members.last_resort);
        members
    }

    /// When the members may change without any news, or a replica that waits to
    /// come back may have to start anew.
    pub fn deadline(&self, view: &FleetView, now: Moment) -> Option<Moment> {
        let future = |at: &Moment| *at > now;
        self.standings
            .iter()
            .filter_map(|(ix, standing)| Some((view.servers.get(ix.index())?, standing)))
            .flat_map(|(server, standing)| self.turns(server, standing))
            .flatten()
            .filter(future)
            .min()
    }

    /// The moments at which one replica's standing may change.
    fn turns(&self, server: &ServerView, standing: &Standing) -> [Option<Moment>; 3] {
        // A microsecond more, so that the bound is passed by then.
        let past = |bound: Duration| {
            let fresh = server.fresh_as_of?;
            Some(fresh.plus(bound).plus(Duration::from_micros(1)))
        };
        match standing {
            Standing::In => [past(self.spec.max_staleness), None, None],
            Standing::Out {
                left,
                good_since: Some(since),
            } => {
                let settled = since.plus(self.spec.dwell);
                let rested = left.map(|left| left.plus(self.spec.rest()));
                let ready = rested.map_or(settled, |rested| rested.max(settled));
                // Who is ready and still out waits for the budget.
                let budget = self.entered.first().map(|first| first.plus(BUDGET_SPAN));
                [Some(ready), budget, past(self.spec.enter)]
            }
            Standing::Out { .. } => [None; 3],
        }
    }

    fn next(&mut self, view: &FleetView, server: &ServerView, now: Moment) -> Standing {
        let before = self.standings.get(&server.ix).copied();
        let staleness = staleness(view, server, now);
        let within = |bound: Duration| staleness.is_some_and(|staleness| staleness <= bound);
        match before {
            Some(Standing::In) if within(self.spec.max_staleness) => Standing::In,
            Some(Standing::In) => Standing::Out {
                left: Some(now),
                good_since: None,
            },
            _ if !self.started && within(self.spec.max_staleness) => Standing::In,
            Some(Standing::Out { left, good_since }) => {
                let good_since = within(self.spec.enter).then(|| good_since.unwrap_or(now));
                self.enter_or_stay(left, good_since, now)
            }
            None => Standing::Out {
                left: None,
                good_since: within(self.spec.enter).then_some(now),
            },
        }
    }

    fn enter_or_stay(
        &mut self,
        left: Option<Moment>,
        good_since: Option<Moment>,
        now: Moment,
    ) -> Standing {
        let settled = good_since.is_some_and(|since| now.since(since) >= self.spec.dwell);
        let rested = left.is_none_or(|left| now.since(left) >= self.spec.rest());
        if settled && rested && self.entered.len() < self.spec.changes_per_minute_max {
            self.entered.push(now);
            return Standing::In;
        }
        Standing::Out { left, good_since }
    }

    fn members(&self, view: &FleetView, now: Moment) -> Members {
        let within: Vec<ServerIx> = view
            .servers
            .iter()
            .filter(|server| self.standings.get(&server.ix) == Some(&Standing::In))
            .map(|server| server.ix)
            .collect();
        let lacking = self.spec.min_readers.max(1).saturating_sub(within.len());
        let last_resort = self.last_resort(view, &within, lacking, now);
        Members {
            within,
            last_resort,
        }
    }

    /// What fills up a tier that lacks members. The other kind of last resort
    /// stands in only where nobody at all would be left: an answer past the
    /// bound is better than ProxySQL's error after ten seconds.
    fn last_resort(
        &self,
        view: &FleetView,
        within: &[ServerIx],
        lacking: usize,
        now: Moment,
    ) -> Vec<ServerIx> {
        if lacking == 0 {
            return Vec::new();
        }
        // Without a source nobody can be judged, and nobody is told apart: one
        // replica that is as good or bad as the others must not get all the work.
        let count = if view.source().is_some() {
            lacking
        } else {
            view.servers.len()
        };
        let replicas = || self.least_stale(view, within, count, now);
        let source = || view.source().map(|source| source.ix).into_iter().collect();
        let (first, second): (Vec<ServerIx>, Vec<ServerIx>) = match self.spec.last_resort {
            LastResort::Source => (source(), replicas()),
            LastResort::LeastStale => (replicas(), source()),
        };
        if within.is_empty() && first.is_empty() {
            second
        } else {
            first
        }
    }

    /// Who stands in already stays until another is fresher by the bound: two
    /// replicas that lag alike would else take turns at every look.
    fn least_stale(
        &self,
        view: &FleetView,
        but: &[ServerIx],
        count: usize,
        now: Moment,
    ) -> Vec<ServerIx> {
        let usable = |server: &&ServerView| {
            server.usable && server.role == Role::Replica && !but.contains(&server.ix)
        };
        let mut left: Vec<&ServerView> = view.servers.iter().filter(usable).collect();
        left.sort_by_key(|server| {
            let ahead = if self.standing_in.contains(&server.ix) {
                Duration::ZERO
            } else {
                self.spec.max_staleness
            };
            let staleness = server
                .staleness(now)
                .map(|staleness| staleness.saturating_add(ahead));
            // Unknown is not "not stale".
            (staleness.is_none(), staleness)
        });
        let mut chosen: Vec<ServerIx> = left.iter().take(count).map(|server| server.ix).collect();
        chosen.sort_unstable();
        chosen
    }
}

/// How stale a replica is; `None` when it is no usable replica, or nothing is
/// known of its staleness.
fn staleness(view: &FleetView, server: &ServerView, now: Moment) -> Option<Duration> {
    let known = server.usable && server.role == Role::Replica && view.source.is_ok();
    known.then(|| server.staleness(now)).flatten()
}

#[cfg(test)]
#[path = "tests/tier.rs"]
mod tests;
