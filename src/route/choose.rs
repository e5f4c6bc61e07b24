//! Which of several equally good replicas: zone first, then load.

use smallvec::SmallVec;

use super::Ask;
use super::fit::{Demands, Fit};
use crate::fleet::{FleetView, Role, ServerIx, ServerView};
use crate::moment::Moment;

/// Servers picked at random before all are looked at.
const PICKS: usize = 4;

/// The replicas, sorted by what they are good for.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Keep the promise now.
    pub(super) fits: SmallVec<[ServerIx; 16]>,
    /// Would, if what earlier reads showed were known.
    pub(super) unlocated: Option<ServerIx>,
    /// Some replica is usable at all.
    pub(super) any_usable: bool,
    /// Some replica fails by its staleness.
    pub(super) stale: bool,
}

impl Scan {
    pub(super) fn of(view: &FleetView, demands: &Demands<'_>) -> Self {
        let mut scan = Self {
            fits: SmallVec::with_capacity(view.servers.len()),
            ..Self::default()
        };
        for server in replicas(view) {
            let fit = demands.fit(server);
            match fit {
                Fit::Fits => scan.fits.push(server.ix),
                Fit::EarlierReadsUnknown => scan.unlocated = scan.unlocated.or(Some(server.ix)),
                Fit::TooStale => scan.stale = true,
                _ => {}
            }
            scan.any_usable |= fit != Fit::NoEvidence;
        }
        scan
    }

    /// The fitting replica to use, by zone and load.
    pub(super) fn choice(&self, view: &FleetView, ask: &Ask) -> Option<ServerIx> {
        if ask.policy.zone != 0 {
            let near = |ix: &&ServerIx| in_zone(view.server(**ix), ask);
            let near: SmallVec<[ServerIx; 16]> = self.fits.iter().filter(near).copied().collect();
            if !near.is_empty() {
                return less_loaded(view, &near, ask.seed);
            }
        }
        less_loaded(view, &self.fits, ask.seed)
    }

    /// Usable replicas, the least behind first, the caller's zone before others.
    pub(super) fn by_promise(view: &FleetView, ask: &Ask, now: Moment) -> SmallVec<[ServerIx; 16]> {
        let usable = replicas(view).filter(|server| server.usable);
        let mut servers: SmallVec<[ServerIx; 16]> = usable.map(|server| server.ix).collect();
        servers.sort_by_key(|ix| {
            let server = view.server(*ix);
            (
                // Unknown is not "nothing missing".
                server.fresh_as_of.is_none(),
                server.behind_for(now),
                !in_zone(server, ask),
                server.load.score(),
            )
        });
        servers
    }
}

/// The replica that the session read from last, when it keeps the promise: to
/// stay there costs no question about earlier reads, and no look at the others.
pub(super) fn stays<'a>(view: &'a FleetView, demands: &Demands<'_>) -> Option<&'a ServerView> {
    let last = view.living(demands.last_read_from()?)?;
    (last.role == Role::Replica && demands.fit(last) == Fit::Fits).then_some(last)
}

/// As [`Scan::choice`] where zones do not matter, without a look at all: two
/// that fit, picked at random from all servers, are as good as two picked at
/// random from all that fit. `None` when the few picks do not find two.
pub(super) fn picked<'a>(
    view: &'a FleetView,
    ask: &Ask,
    demands: &Demands<'_>,
) -> Option<&'a ServerView> {
    if ask.policy.zone != 0 || view.servers.is_empty() {
        return None;
    }
    let (mut state, mut other) = (ask.seed, None::<&ServerView>);
    for _ in 0..PICKS {
        // A linear congruential generator's upper half (Knuth's MMIX).
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let at = ((state >> 32) * view.servers.len() as u64) >> 32;
        let server = &view.servers[at as usize];
        if server.role != Role::Replica || demands.fit(server) != Fit::Fits {
            continue;
        }
        match other {
            Some(other) if other.ix != server.ix => return Some(better(other, server)),
            _ => other = Some(server),
        }
    }
    None
}

fn better<'a>(one: &'a ServerView, two: &'a ServerView) -> &'a ServerView {
    if two.load.score() < one.load.score() {
        two
    } else {
        one
    }
}

fn replicas(view: &FleetView) -> impl Iterator<Item = &ServerView> {
    let is_replica = |server: &&ServerView| server.role == Role::Replica;
    view.servers.iter().filter(is_replica)
}

fn in_zone(server: &ServerView, ask: &Ask) -> bool {
    ask.policy.zone != 0 && server.info.zone_number == ask.policy.zone
}

/// The better of two picked at random: nearly as even as comparing all, without
/// sending everybody to the same momentary best (Mitzenmacher, "The power of two
/// choices in randomized load balancing", 2001).
fn less_loaded(view: &FleetView, among: &[ServerIx], seed: u64) -> Option<ServerIx> {
    let count = u64::try_from(among.len()).ok().filter(|count| *count > 0)?;
    let nth = |n: u64| among[usize::try_from(n).expect("n is below a length")];
    let first = (seed >> 32) % count;
    if count == 1 {
        return Some(nth(first));
    }
    let second = (first + 1 + (seed & 0xffff_ffff) % (count - 1)) % count;
    Some(better(view.server(nth(first)), view.server(nth(second))).ix)
}
