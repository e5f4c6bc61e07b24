//! What is known of every server: one owner, fed by events, read as snapshots.
//!
//! Pure: events and the time go in, a [`FleetView`] comes out. It knows nothing
//! of connections, tasks or clocks. The rules it keeps:
//!
//! - a server's executed set counts only while its connection lives (unknown is
//!   not fresh), and a shrunk set or a new `server_uuid` starts a new epoch whose
//!   evidence replaces the old one;
//! - answers may arrive out of order from several connections, so every sample
//!   carries when it was asked for and when it was answered;
//! - there is a source only when [`roles`] is certain of it.

mod ring;
pub mod roles;
mod server;
pub mod status;
mod view;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use roles::{Role, SourceError};
use server::Server;
pub use status::{Channel, Fault, Identity, Status, Version};
pub use view::{FleetView, Load, ServerInfo, ServerView};

use crate::gtid::{GtidSet, Sid, Tag, Uuid};
use crate::moment::Moment;
use ring::Ring;

/// A server's place in the configured list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerIx(pub u16);

impl ServerIx {
    /// The place as an index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// One epoch of one server: never used again once that epoch has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Life(pub u32);

impl Life {
    /// Stands for servers that cannot be told apart any more: what they showed
    /// is bounded only by what the source has.
    pub const ANY: Self = Self(u32::MAX);
}

/// A server as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSpec {
    /// The name used in answers.
    pub name: String,
    /// `host:port`.
    pub address: String,
    /// Where it stands; reads prefer their own zone.
    pub zone: Option<String>,
}

/// Splits `host:port`, `[v6]:port` included.
pub(crate) fn split_address(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    (!host.is_empty()).then_some((host, port.parse().ok()?))
}

/// What a server reported as executed, and when.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Who answers on the connection: an address may have moved to another
    /// server while an old connection lives on.
    pub server: Uuid,
    /// `@@GLOBAL.gtid_executed`, or it together with the set of a barrier that
    /// returned 0.
    pub set: Arc<GtidSet>,
    /// `@@GLOBAL.gtid_owned`, read just before `set`, where it was asked for.
    pub owned: Option<Arc<GtidSet>>,
    /// Just before the question was sent.
    pub asked: Moment,
    /// Just after the answer was read.
    pub answered: Moment,
    /// `@@GLOBAL.read_only` in the same answer, where it was asked for.
    pub read_only: Option<bool>,
}

/// Everything that can happen to the fleet.
#[derive(Clone, Debug)]
pub enum Event {
    /// A new connection told who the server is.
    Identified(Identity),
    /// The status poll was answered.
    Polled {
        /// Who answers on the connection.
        server: Uuid,
        /// What it said.
        status: Status,
        /// Just before the first question of the poll was sent.
        asked: Moment,
    },
    /// The server reported its executed set.
    Executed(Sample),
    /// A connection broke, or the server turned out unusable.
    Lost(Fault),
}

/// Something an operator wants to see in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A server's evidence is back.
    Usable(ServerIx),
    /// A server's evidence was dropped.
    Lost(ServerIx, Fault),
    /// A server's executed set shrank or its `server_uuid` changed.
    NewEpoch(ServerIx),
    /// The source is now this server.
    SourceIs(ServerIx),
    /// There is no certain source any more.
    NoSource(SourceError),
}

/// A set that every server must cover before it may serve any session, so that
/// sessions whose requirement lies inside it need not be remembered.
#[derive(Clone, Debug, Default)]
pub struct Floor {
    /// The set.
    pub set: Arc<GtidSet>,
    /// Everything any server could show at this moment is inside the set;
    /// `None` before that is known of any moment.
    pub as_of: Option<Moment>,
}

/// A bound on everything that any server showed up to a moment: what the source
/// had executed and what it was about to. (A row may show, on the source or on a
/// replica, before the source lists its transaction as executed.)
#[derive(Debug)]
struct Shown {
    by: Moment,
    bound: GtidSet,
}

/// The state of all servers.
#[derive(Debug)]
pub struct Fleet {
    servers: Vec<Server>,
    source: Result<ServerIx, SourceError>,
    last_source: Option<(ServerIx, Life)>,
    ring: Ring,
    floor: Floor,
    floor_started: bool,
    /// What the floor has to reach next for its `as_of` to move on.
    shown: Option<Shown>,
    main_sid: Option<Sid>,
    next_life: u32,
    notices: Vec<Notice>,
}

impl Fleet {
    /// A fleet about which nothing is known yet.
    pub fn new(specs: &[ServerSpec]) -> Self {
        let zones = view::zone_numbers(specs);
        let servers: Vec<Server> = specs
            .iter()
            .zip(zones)
            .enumerate()
            .map(|(i, (spec, zone))| Server::new(spec, zone, i))
            .collect();
        let next_life =
            u32::try_from(servers.len()).expect("a fleet has at most 65,536 servers") + 1;
        Self {
            servers,
            source: Err(SourceError::NoneWritable),
            last_source: None,
            ring: Ring::default(),
            floor: Floor::default(),
            floor_started: false,
            shown: None,
            main_sid: None,
            next_life,
            notices: Vec::new(),
        }
    }

    /// Takes in what happened to `server`; false when nothing changed by it.
    pub fn apply(&mut self, server: ServerIx, event: Event, now: Moment) -> bool {
        match event {
            Event::Identified(identity) => self.identified(server, identity, now),
            Event::Polled {
                server: from,
                status,
                asked,
            } => self.polled(server, from, status, asked, now),
            Event::Executed(sample) => self.executed(server, &sample),
            Event::Lost(fault) => self.lost(server, fault, now),
        }
    }

    /// Log-worthy changes since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// A snapshot for readers.
    pub fn view(&self) -> FleetView {
        view::build(&self.servers, &self.source, self.main_sid, &self.floor)
    }

    /// The present floor.
    pub fn floor(&self) -> &Floor {
        &self.floor
    }

    /// Raises the floor to what every usable server has executed by now.
    ///
    /// With `leave_out_lag`, replicas that miss something older than that are
    /// not waited for: they then may serve no session until they cover the
    /// floor. Returns false when there is no source or nothing moved.
    pub fn raise_floor(&mut self, now: Moment, leave_out_lag: Option<std::time::Duration>) -> bool {
        if self.source.is_err() || !self.floor_started {
            return false;
        }
        let near = |server: &&Server| {
            server.evidence().is_some() && !server.lags_by_more(now, leave_out_lag)
        };
        let sets = self.servers.iter().filter(near);
        let common =
            sets.filter_map(Server::evidence)
                .fold(None, |common: Option<GtidSet>, set| {
                    Some(common.map_or_else(|| GtidSet::clone(set), |common| common.intersect(set)))
                });
        let Some(common) = common else { return false };
        let rose = !self.floor.set.contains_set(&common);
        if rose {
            self.floor.set = Arc::new(self.floor.set.union(&common));
            self.refresh_floor_flags();
        }
        self.date_floor() || rose
    }

    /// Moves the floor's date on, once it covers all that could be seen then.
    fn date_floor(&mut self) -> bool {
        let reached = |shown: &mut Shown| self.floor.set.contains_set(&shown.bound);
        let Some(shown) = self.shown.take_if(reached) else {
            return false;
        };
        self.floor.as_of = self.floor.as_of.max(Some(shown.by));
        true
    }

    /// Notes a bound on what could be seen. The one noted earlier is kept until
    /// the floor reaches it, or it turns out that a part of it was rolled back.
    fn note_shown(&mut self, sample: &Sample) {
        let Some(owned) = &sample.owned else { return };
        let bound = sample.set.union(owned);
        let holds = |shown: &Shown| bound.contains_set(&shown.bound);
        if !self.shown.as_ref().is_some_and(holds) {
            self.shown = Some(Shown {
                by: sample.asked,
                bound,
            });
        }
    }

    fn identified(&mut self, server: ServerIx, identity: Identity, now: Moment) -> bool {
        let life = self.next_life;
        let state = &mut self.servers[server.index()];
        if state.identify(identity, Life(life), now) {
            self.next_life += 1;
            self.notices.push(Notice::NewEpoch(server));
            self.reconsider_source();
        }
        true
    }

    fn polled(
        &mut self,
        server: ServerIx,
        from: Uuid,
        status: Status,
        asked: Moment,
        now: Moment,
    ) -> bool {
        if !self.servers[server.index()].polled(from, status, asked, now) {
            return false;
        }
        self.reconsider_source();
        true
    }

    fn lost(&mut self, server: ServerIx, fault: Fault, now: Moment) -> bool {
        if !self.servers[server.index()].lose(fault.clone(), now) {
            return false;
        }
        self.notices.push(Notice::Lost(server, fault));
        self.reconsider_source();
        true
    }

    fn executed(&mut self, server: ServerIx, sample: &Sample) -> bool {
        let life = self.next_life;
        let state = &mut self.servers[server.index()];
        let outcome = state.take_sample(sample, Life(life));
        if outcome == server::Taken::Ignored {
            return false;
        }
        let role_moved = state.note_read_only(sample);
        if outcome == server::Taken::NewEpoch {
            self.next_life += 1;
            self.notices.push(Notice::NewEpoch(server));
        }
        if outcome == server::Taken::First {
            self.notices.push(Notice::Usable(server));
        }
        if role_moved || matches!(outcome, server::Taken::NewEpoch | server::Taken::First) {
            self.reconsider_source();
        }
        self.measure(server, sample);
        true
    }

    /// Updates the staleness of `server`, or of everyone when it is the source.
    fn measure(&mut self, server: ServerIx, sample: &Sample) {
        if self.source != Ok(server) {
            self.servers[server.index()].measure(&self.ring, &self.floor);
            return;
        }
        let set = self.servers[server.index()]
            .evidence()
            .expect("the sample was just taken");
        self.main_sid = grown_sid(self.servers[server.index()].previous(), set).or(self.main_sid);
        self.ring
            .record(&Arc::clone(set), sample.asked, sample.answered);
        self.note_shown(sample);
        self.start_floor();
        for state in &mut self.servers {
            state.measure(&self.ring, &self.floor);
        }
    }

    /// At the first sight of a source, what it has executed is the floor: the
    /// sessions of an earlier run of this process are not known any more, and
    /// all they wrote is in there.
    fn start_floor(&mut self) {
        let Ok(source) = self.source else { return };
        let Some(set) = self.servers[source.index()].evidence() else {
            return;
        };
        if !self.floor_started {
            self.floor = Floor {
                set: Arc::clone(set),
                as_of: None,
            };
            self.floor_started = true;
        } else if !set.contains_set(&self.floor.set) {
            // Lost in a failover or a reset: no server can ever cover it again.
            self.floor.set = Arc::new(self.floor.set.intersect(set));
        }
    }

    fn reconsider_source(&mut self) {
        let facts: Vec<roles::Facts<'_>> = self
            .servers
            .iter()
            .enumerate()
            .map(|(i, s)| {
                s.role_facts(
                    self.last_source
                        .is_some_and(|(ix, life)| ix.index() == i && life == s.life()),
                )
            })
            .collect();
        let found = roles::source_of(&facts)
            .map(|i| ServerIx(u16::try_from(i).expect("a fleet has at most 65,536 servers")));
        for (i, server) in self.servers.iter_mut().enumerate() {
            server.set_role(found.as_ref().is_ok_and(|source| source.index() == i));
        }
        if found != self.source {
            self.notices.push(match &found {
                Ok(source) => Notice::SourceIs(*source),
                Err(error) => Notice::NoSource(error.clone()),
            });
            self.source = found;
        } else if self.source_lives_on() {
            return;
        }
        if let Ok(source) = self.source {
            self.take_source(source);
        }
    }

    /// The source is in the same epoch as when it was found, or there is none.
    fn source_lives_on(&self) -> bool {
        self.source.as_ref().map_or(true, |source| {
            self.last_source == Some((*source, self.servers[source.index()].life()))
        })
    }

    fn take_source(&mut self, source: ServerIx) {
        let life = self.servers[source.index()].life();
        if self.last_source.replace((source, life)) != Some((source, life)) {
            self.ring.clear();
            self.shown = None;
        }
        if let Some(uuid) = self.servers[source.index()].uuid() {
            self.main_sid = self.main_sid.or(Some(Sid {
                uuid,
                tag: Tag::NONE,
            }));
        }
        self.start_floor();
        self.refresh_floor_flags();
    }

    fn refresh_floor_flags(&mut self) {
        for state in &mut self.servers {
            state.measure(&self.ring, &self.floor);
        }
    }
}

/// The UUID and tag under which the source commits now: the one that grew.
fn grown_sid(before: Option<&GtidSet>, after: &GtidSet) -> Option<Sid> {
    let before = before?;
    let last = |set: &GtidSet, sid: &Sid| {
        set.intervals(sid)
            .and_then(|i| i.iter().last())
            .map(|(_, end)| end)
    };
    after
        .sids()
        .map(|(sid, _)| *sid)
        .find(|sid| last(after, sid) != last(before, sid))
}
