//! Which of several equally good replicas: zone first, then load.

use smallvec::SmallVec;

use super::Ask;
use super::fit::Fit;
use crate::fleet::{FleetView, Role, ServerIx, ServerView};
use crate::moment::Moment;

/// The replicas, sorted by what they are good for.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Keep the promise now.
    pub(super) fits: SmallVec<[ServerIx; 16]>,
    /// Would, if what earlier reads showed were known.
    pub(super) unlocated: Option<ServerIx>,
    /// Usable at all.
    pub(super) usable: SmallVec<[ServerIx; 16]>,
    /// Some replica fails by its staleness.
    pub(super) stale: bool,
}

impl Scan {
    pub(super) fn of(view: &FleetView, ask: &Ask, now: Moment) -> Self {
        let mut scan = Self::default();
        for server in view
            .servers
            .iter()
            .filter(|server| server.role == Role::Replica)
        {
            let fit = ask.fit(view, server, now);
            match fit {
                Fit::Fits => scan.fits.push(server.ix),
                Fit::EarlierReadsUnknown => scan.unlocated = scan.unlocated.or(Some(server.ix)),
                Fit::TooStale => scan.stale = true,
                _ => {}
            }
            if fit != Fit::NoEvidence {
                scan.usable.push(server.ix);
            }
        }
        scan
    }

    /// The fitting replica to use: where the session read last if that is one
    /// of them, else by zone and load.
    pub(super) fn choice(&self, view: &FleetView, ask: &Ask) -> Option<ServerIx> {
        let last = ask
            .session
            .as_ref()
            .filter(|_| ask.policy.consistency.keeps_reads())
            .and_then(|state| state.seen.last);
        let stays =
            last.and_then(|life| self.fits.iter().find(|ix| view.server(**ix).life == life));
        if let Some(stays) = stays {
            return Some(*stays);
        }
        let near: SmallVec<[ServerIx; 16]> = self
            .fits
            .iter()
            .copied()
            .filter(|ix| in_zone(view.server(*ix), ask))
            .collect();
        less_loaded(
            view,
            if near.is_empty() { &self.fits } else { &near },
            ask.seed,
        )
    }

    /// Usable replicas, the least behind first, the caller's zone before others.
    pub(super) fn by_promise(
        &self,
        view: &FleetView,
        ask: &Ask,
        now: Moment,
    ) -> SmallVec<[ServerIx; 16]> {
        let mut servers = self.usable.clone();
        servers.sort_by_key(|ix| {
            let server = view.server(*ix);
            (
                server.behind_for(now),
                !in_zone(server, ask),
                server.load.score(),
            )
        });
        servers
    }
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
    let score = |ix: ServerIx| view.server(ix).load.score();
    let (one, two) = (nth(first), nth(second));
    Some(if score(two) < score(one) { two } else { one })
}
