//! What the managed hostgroups should hold, from what is known of the fleet.
//!
//! Two kinds of hostgroups are managed. A **tier** offers the replicas within a
//! staleness bound. A **hint** hostgroup holds one server, with the source
//! standing by at a weight that is never drawn while the server takes work; so
//! that a read sent there by a comment still gets an answer when the server dies.
//!
//! Pure: no connection, no clock.

use std::collections::BTreeSet;

use super::rows::{Address, Key};
use super::tier::{Members, TierSpec};
use crate::fleet::{FleetView, ServerIx};

/// The weight of a hint hostgroup's own server: beside it the stand-by's weight
/// of 1 is drawn less than once in ten million (0 of 60,000 when measured).
pub const WEIGHT_OWN: u32 = 10_000_000;
/// The weight of the source standing by.
const WEIGHT_STAND_BY: u32 = 1;

/// Whether a row that is missing may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Create {
    /// No.
    Never,
    /// Only where no monitor of ProxySQL places servers: there the monitor and
    /// the administrator decide who is in.
    Unplaced,
    /// Yes.
    Always,
}

/// How one row should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// The row.
    pub key: Key,
    /// It takes new work.
    pub on: bool,
    /// Its weight, where that matters.
    pub weight: Option<u32>,
    /// `max_replication_lag`, put where it is 0: ProxySQL's own coarse guard,
    /// should Causeway be gone.
    pub lag_if_none: u32,
    /// Whether it may be made.
    pub create: Create,
}

/// The hostgroups that hold one server each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HintSpec {
    /// The first server's hostgroup is this plus 1, and so on.
    pub base: u32,
}

impl HintSpec {
    /// The hostgroup of one server.
    pub fn hostgroup(self, server: ServerIx) -> u32 {
        self.base + 1 + u32::from(server.0)
    }
}

/// What is managed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managed {
    /// The hint hostgroups, if wanted.
    pub hints: Option<HintSpec>,
    /// The tiers.
    pub tiers: Vec<TierSpec>,
}

impl Managed {
    /// Every hostgroup that may be touched, of a fleet of `servers`.
    pub fn hostgroups(&self, servers: usize) -> BTreeSet<u32> {
        let all = u16::try_from(servers).expect("a fleet has at most 65,536 servers");
        let hints = self.hints.into_iter();
        let hints = hints.flat_map(|hints| (0..all).map(move |ix| hints.hostgroup(ServerIx(ix))));
        let tiers = self.tiers.iter().map(|tier| tier.hostgroup);
        hints.chain(tiers).collect()
    }
}

/// How the rows of all managed hostgroups should be. `addresses` are the
/// servers as ProxySQL names them, in the order of the configuration. A
/// hostgroup in which nobody could take work is left as it is.
pub fn wants(
    view: &FleetView,
    managed: &Managed,
    members: &[Members],
    addresses: &[Address],
) -> Vec<Want> {
    let mut wants = Vec::new();
    for (spec, members) in managed.tiers.iter().zip(members) {
        tier(view, spec, members, addresses, &mut wants);
    }
    if let Some(hints) = managed.hints {
        for server in &view.servers {
            hint(view, hints, server.ix, addresses, &mut wants);
        }
    }
    wants
}

fn tier(
    view: &FleetView,
    spec: &TierSpec,
    members: &Members,
    addresses: &[Address],
    wants: &mut Vec<Want>,
) {
    if members.within.is_empty() && members.last_resort.is_empty() {
        return;
    }
    for (server, address) in view.servers.iter().zip(addresses) {
        let on = members.has(server.ix);
        let is_source = view.source.as_ref() == Ok(&server.ix);
        let create = match (on, is_source) {
            (true, true) => Create::Always,
            (true, false) => Create::Unplaced,
            (false, _) => Create::Never,
        };
        wants.push(Want {
            key: Key {
                hostgroup: spec.hostgroup,
                address: address.clone(),
            },
            on,
            weight: None,
            // The source lags behind nobody.
            lag_if_none: if is_source {
                0
            } else {
                spec.max_replication_lag
            },
            create,
        });
    }
}

fn hint(
    view: &FleetView,
    hints: HintSpec,
    own: ServerIx,
    addresses: &[Address],
    wants: &mut Vec<Want>,
) {
    let source = view.source().map(|source| source.ix);
    let usable = view.server(own).usable;
    if !usable && source.is_none_or(|source| source == own) {
        return;
    }
    for (server, address) in view.servers.iter().zip(addresses) {
        let (on, weight) = if server.ix == own {
            (usable, WEIGHT_OWN)
        } else {
            // Without a known source, who stands by now is as good as any.
            match source {
                Some(source) => (server.ix == source, WEIGHT_STAND_BY),
                None => continue,
            }
        };
        wants.push(Want {
            key: Key {
                hostgroup: hints.hostgroup(own),
                address: address.clone(),
            },
            on,
            weight: Some(weight),
            lag_if_none: 0,
            create: if on { Create::Always } else { Create::Never },
        });
    }
}

#[cfg(test)]
#[path = "tests/want.rs"]
mod tests;
