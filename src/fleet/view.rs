//! Snapshots of the fleet: what a decision reads, and nothing else.
//!
//! A view never changes once built. What changes between two views without
//! harm, the load of a server, sits in atomics that all views share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::roles::{Role, SourceError};
use super::server::Server;
use super::status::{Fault, Identity, Status};
use super::{Floor, Life, ServerIx, ServerSpec};
use crate::gtid::{GtidSet, Sid};
use crate::moment::Moment;
use crate::requirement::Requirement;

/// What never changes about a server.
#[derive(Debug, PartialEq, Eq)]
pub struct ServerInfo {
    /// The configured name.
    pub name: String,
    /// `host:port`.
    pub address: String,
    /// The configured zone.
    pub zone: Option<String>,
    /// A number per zone, 0 for none.
    pub(crate) zone_number: u16,
}

impl ServerInfo {
    pub(super) fn new(spec: &ServerSpec, zone_number: u16) -> Self {
        Self {
            name: spec.name.clone(),
            address: spec.address.clone(),
            zone: spec.zone.clone(),
            zone_number,
        }
    }
}

/// How busy a server is: threads running there at the last poll, and reads sent
/// there since.
#[derive(Debug, Default)]
pub struct Load {
    threads_running: AtomicU32,
    assigned: AtomicU32,
}

impl Load {
    pub(super) fn polled(&self, threads_running: u32) {
        self.threads_running
            .store(threads_running, Ordering::Relaxed);
        self.assigned.store(0, Ordering::Relaxed);
    }

    /// Counts a read sent to the server.
    pub fn assign(&self) {
        self.assigned.fetch_add(1, Ordering::Relaxed);
    }

    /// A comparable measure: servers that run three times the threads get a
    /// third of the reads.
    pub fn score(&self) -> u64 {
        let threads = u64::from(self.threads_running.load(Ordering::Relaxed));
        let assigned = u64::from(self.assigned.load(Ordering::Relaxed));
        (1 + threads) * (1 + assigned)
    }
}

/// One server in a snapshot.
#[derive(Clone, Debug)]
pub struct ServerView {
    /// Its place in the configuration.
    pub ix: ServerIx,
    /// Its part in replication.
    pub role: Role,
    /// The present epoch.
    pub life: Life,
    /// The server has evidence: its connection lives and it reported a set.
    pub usable: bool,
    /// Its executed set covers the floor.
    pub covers_floor: bool,
    /// Its applier was running at the last poll.
    pub applying: bool,
    /// Highest N with all of 1..=N of the view's main UUID executed.
    pub watermark: u64,
    /// All that the source had executed at this moment is executed here.
    pub fresh_as_of: Option<Moment>,
    /// When the oldest thing still missing here was first seen on the source.
    pub missing_since: Option<Moment>,
    /// Name, address and zone.
    pub info: Arc<ServerInfo>,
    /// The load counters.
    pub load: Arc<Load>,
    executed: Option<Arc<GtidSet>>,
    cold: Arc<Cold>,
}

/// Only shown, never decided on.
#[derive(Debug)]
struct Cold {
    epoch: u32,
    identity: Option<Identity>,
    status: Option<Arc<Status>>,
    fault: Option<Fault>,
    evidence_asked: Option<Moment>,
}

impl ServerView {
    /// The executed set; `None` when there is no evidence.
    pub fn executed(&self) -> Option<&Arc<GtidSet>> {
        self.executed.as_ref()
    }

    /// Now minus [`ServerView::fresh_as_of`].
    pub fn staleness(&self, now: Moment) -> Option<Duration> {
        self.fresh_as_of.map(|fresh| now.since(fresh))
    }

    /// For how long the oldest missing transaction has been missing; `None`
    /// when nothing known is missing.
    pub fn behind_for(&self, now: Moment) -> Option<Duration> {
        self.missing_since.map(|since| now.since(since))
    }

    /// The epoch's number, from 1.
    pub fn epoch(&self) -> u32 {
        self.cold.epoch
    }

    /// What the server said of itself.
    pub fn identity(&self) -> Option<&Identity> {
        self.cold.identity.as_ref()
    }

    /// The newest status poll of the living connection.
    pub fn status(&self) -> Option<&Status> {
        self.cold.status.as_deref()
    }

    /// Why the server is not usable.
    pub fn fault(&self) -> Option<&Fault> {
        self.cold.fault.as_ref()
    }

    /// When the present evidence was asked for.
    pub fn evidence_asked(&self) -> Option<Moment> {
        self.cold.evidence_asked
    }
}

/// The fleet at one moment.
#[derive(Clone, Debug)]
pub struct FleetView {
    /// The servers, in the order of the configuration.
    pub servers: Vec<ServerView>,
    /// The one source, or why there is none.
    pub source: Result<ServerIx, SourceError>,
    /// The UUID and tag under which the source commits now.
    pub main_sid: Option<Sid>,
    /// The floor under all sessions.
    pub floor: Floor,
}

impl FleetView {
    /// The server at `ix`.
    pub fn server(&self, ix: ServerIx) -> &ServerView {
        &self.servers[ix.index()]
    }

    /// The source, when it is known and has evidence.
    pub fn source(&self) -> Option<&ServerView> {
        self.source
            .as_ref()
            .ok()
            .map(|ix| self.server(*ix))
            .filter(|source| source.usable)
    }

    /// The server that is in its epoch `life` now.
    pub fn living(&self, life: Life) -> Option<&ServerView> {
        let lives = |server: &&ServerView| server.life == life;
        // A server's first life is its place, counted from 1.
        let place = usize::try_from(life.0).ok()?.checked_sub(1)?;
        let first = self.servers.get(place).filter(lives);
        first.or_else(|| self.servers.iter().find(lives))
    }

    /// True when `server` itself reported to have executed `need`.
    pub fn meets(&self, server: &ServerView, need: &Requirement) -> bool {
        let main = |sid: &Sid| self.main_sid.as_ref() == Some(sid);
        match need {
            Requirement::Nothing => return true,
            Requirement::One(gtid) if main(&gtid.sid) && gtid.gno <= server.watermark => {
                return true;
            }
            Requirement::UpTo { sid, gno } if main(sid) => return *gno <= server.watermark,
            Requirement::Set(need) => return self.meets_set(server, need),
            _ => {}
        }
        server.executed.as_ref().is_some_and(|set| need.met_by(set))
    }

    /// As [`FleetView::meets`]: what lies below the watermark needs no look at
    /// the set.
    fn meets_set(&self, server: &ServerView, need: &GtidSet) -> bool {
        let Some(executed) = &server.executed else {
            return need.is_empty();
        };
        need.sids().all(|(sid, need)| {
            let below = self.main_sid.as_ref() == Some(sid)
                && need
                    .iter()
                    .next_back()
                    .is_some_and(|(_, end)| end <= server.watermark);
            below
                || executed
                    .intervals(sid)
                    .is_some_and(|has| has.contains_all(need))
        })
    }

    /// Transactions that the source has executed and `server` has not; `None`
    /// when either is unknown.
    pub fn transactions_behind(&self, server: &ServerView) -> Option<u64> {
        let source = self.source()?.executed()?;
        Some(source.subtract(server.executed()?).count())
    }

    /// Transactions received by `server` and not yet executed there.
    pub fn received_not_executed(&self, server: &ServerView) -> Option<u64> {
        let executed = server.executed()?;
        let mut received = server
            .status()?
            .channels
            .iter()
            .map(|channel| channel.received.as_ref());
        received.try_fold(0, |sum, set| Some(sum + set?.subtract(executed).count()))
    }

    /// Transactions on `server` that the source never had: errant ones, or
    /// writes lost in a failover. Small numbers right after a commit on the
    /// source only mean that the source was asked a moment earlier.
    pub fn errant(&self, server: &ServerView) -> Option<GtidSet> {
        let source = self.source()?.executed()?;
        Some(server.executed()?.subtract(source))
    }
}

/// Numbers the zones from 1 in the order in which they first appear.
pub(super) fn zone_numbers(specs: &[ServerSpec]) -> Vec<u16> {
    let mut zones: Vec<&str> = Vec::new();
    let mut numbers = Vec::with_capacity(specs.len());
    for spec in specs {
        let Some(zone) = spec.zone.as_deref() else {
            numbers.push(0);
            continue;
        };
        if !zones.contains(&zone) {
            zones.push(zone);
        }
        let at = zones
            .iter()
            .position(|known| *known == zone)
            .expect("it was just added");
        numbers.push(u16::try_from(at + 1).unwrap_or(u16::MAX));
    }
    numbers
}

pub(super) fn build(
    servers: &[Server],
    source: &Result<ServerIx, SourceError>,
    main_sid: Option<Sid>,
    floor: &Floor,
) -> FleetView {
    let view = |(i, server): (usize, &Server)| {
        let ix = ServerIx(u16::try_from(i).expect("a fleet has at most 65,536 servers"));
        server_view(server, ix, main_sid.as_ref())
    };
    FleetView {
        servers: servers.iter().enumerate().map(view).collect(),
        source: source.clone(),
        main_sid,
        floor: floor.clone(),
    }
}

fn server_view(server: &Server, ix: ServerIx, main_sid: Option<&Sid>) -> ServerView {
    let executed = server.evidence().cloned();
    let standing = server.standing();
    let watermark = main_sid
        .zip(executed.as_ref())
        .map_or(0, |(sid, set)| set.watermark(sid));
    let channels = server.status().map(|status| &status.channels);
    ServerView {
        ix,
        role: server.role(),
        life: server.life(),
        usable: executed.is_some() && server.role() != Role::Unknown,
        covers_floor: server.covers_floor(),
        applying: channels
            .is_some_and(|channels| channels.iter().all(|channel| channel.applier_running)),
        watermark,
        fresh_as_of: standing.fresh_as_of,
        missing_since: standing.missing_since,
        info: Arc::clone(&server.info),
        load: Arc::clone(&server.load),
        executed,
        cold: Arc::new(Cold {
            epoch: server.epoch(),
            identity: server.identity().cloned(),
            status: server.status().cloned(),
            fault: server.fault().cloned(),
            evidence_asked: server.evidence_asked(),
        }),
    }
}
