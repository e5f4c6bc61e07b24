//! One server's evidence, epoch and role.

use std::sync::Arc;
use std::time::Duration;

use super::ring::{Ring, Standing};
use super::roles::{Facts, Role};
use super::status::{Fault, Identity, Status};
use super::view::{Load, ServerInfo};
use super::{Floor, Life, Sample, ServerSpec};
use crate::gtid::{GtidSet, Uuid};
use crate::moment::Moment;

/// What became of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// Older than what is known, or of a connection that is gone.
    Ignored,
    /// The same epoch goes on.
    Grown,
    /// Evidence where there was none.
    First,
    /// The set shrank: another history.
    NewEpoch,
}

#[derive(Debug)]
struct Evidence {
    set: Arc<GtidSet>,
    asked: Moment,
    answered: Moment,
}

#[derive(Debug)]
pub(super) struct Server {
    pub(super) info: Arc<ServerInfo>,
    pub(super) load: Arc<Load>,
    identity: Option<Identity>,
    status: Option<Arc<Status>>,
    fault: Option<Fault>,
    role: Role,
    life: Life,
    epoch: u32,
    /// The newest sample of this epoch; it stays after a loss, to recognise a
    /// shrunk set, but then is no evidence.
    last: Option<Evidence>,
    previous: Option<Arc<GtidSet>>,
    live: bool,
    /// Answers to questions asked before this moment do not count.
    valid_from: Moment,
    /// When the server last said that it is read-only.
    locked_at: Moment,
    standing: Standing,
    covers_floor: bool,
}

impl Server {
    pub(super) fn new(spec: &ServerSpec, zone: u16, index: usize) -> Self {
        Self {
            info: Arc::new(ServerInfo::new(spec, zone)),
            load: Arc::default(),
            identity: None,
            status: None,
            fault: Some(Fault::NotConnectedYet),
            role: Role::Unknown,
            life: Life(u32::try_from(index).expect("a fleet has at most 65,536 servers") + 1),
            epoch: 1,
            last: None,
            previous: None,
            live: false,
            valid_from: Moment::default(),
            locked_at: Moment::default(),
            standing: Standing::default(),
            covers_floor: false,
        }
    }

    /// The executed set, while it is evidence.
    pub(super) fn evidence(&self) -> Option<&Arc<GtidSet>> {
        self.last
            .as_ref()
            .filter(|_| self.live)
            .map(|last| &last.set)
    }

    /// The set before the newest one, of the same epoch.
    pub(super) fn previous(&self) -> Option<&GtidSet> {
        self.previous.as_deref()
    }

    /// When the evidence was asked for.
    pub(super) fn evidence_asked(&self) -> Option<Moment> {
        self.last
            .as_ref()
            .filter(|_| self.live)
            .map(|last| last.asked)
    }

    pub(super) fn uuid(&self) -> Option<Uuid> {
        self.identity.as_ref().map(|identity| identity.uuid)
    }

    pub(super) fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    pub(super) fn status(&self) -> Option<&Arc<Status>> {
        self.status.as_ref()
    }

    pub(super) fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    pub(super) fn role(&self) -> Role {
        self.role
    }

    pub(super) fn life(&self) -> Life {
        self.life
    }

    pub(super) fn epoch(&self) -> u32 {
        self.epoch
    }

    pub(super) fn standing(&self) -> Standing {
        self.standing
    }

    pub(super) fn covers_floor(&self) -> bool {
        self.covers_floor
    }

    pub(super) fn lags_by_more(&self, now: Moment, bound: Option<Duration>) -> bool {
        let behind = self.standing.missing_since.map(|since| now.since(since));
        matches!((behind, bound), (Some(behind), Some(bound)) if behind > bound)
    }

    pub(super) fn role_facts(&self, was_source: bool) -> Facts<'_> {
        let status = self.status.as_deref().filter(|_| self.live);
        Facts {
            name: &self.info.name,
            uuid: self.uuid(),
            status,
            was_source,
        }
    }

    pub(super) fn set_role(&mut self, is_source: bool) {
        self.role = match &self.status {
            _ if !self.live => Role::Unknown,
            _ if is_source => Role::Source,
            Some(status) if !status.channels.is_empty() => Role::Replica,
            _ => Role::Unknown,
        };
    }

    /// True when another server answers at this address than before.
    pub(super) fn identify(&mut self, identity: Identity, life: Life, now: Moment) -> bool {
        let other = self
            .identity
            .as_ref()
            .is_some_and(|known| known.uuid != identity.uuid);
        self.identity = Some(identity);
        if other {
            self.begin_epoch(life);
            self.live = false;
            self.status = None;
            self.last = None;
            self.valid_from = now;
        }
        other
    }

    /// Takes in a status poll; false when it is of a connection that is gone.
    pub(super) fn polled(
        &mut self,
        from: Uuid,
        mut status: Status,
        asked: Moment,
        now: Moment,
    ) -> bool {
        if asked < self.valid_from || self.uuid() != Some(from) {
            return false;
        }
        if let Some(threads) = status.threads_running {
            self.load.polled(threads);
        }
        status.read_only = self.read_only(status.read_only, asked, now);
        self.status = Some(Arc::new(status));
        true
    }

    /// True when the role may have changed by it.
    pub(super) fn note_read_only(&mut self, sample: &Sample) -> bool {
        let Some(said) = sample.read_only else {
            return false;
        };
        let read_only = self.read_only(said, sample.asked, sample.answered);
        let Some(status) = self
            .status
            .as_mut()
            .filter(|status| status.read_only != read_only)
        else {
            return false;
        };
        Arc::make_mut(status).read_only = read_only;
        true
    }

    /// An older "writable" never overrules a newer "read-only": a demoted source
    /// must not become the source again by an answer that was under way.
    fn read_only(&mut self, said: bool, asked: Moment, answered: Moment) -> bool {
        if said {
            self.locked_at = self.locked_at.max(answered);
        }
        said || asked < self.locked_at
    }

    /// Drops the evidence; false when there was none and nothing new is said.
    pub(super) fn lose(&mut self, fault: Fault, now: Moment) -> bool {
        let news = self.live || self.fault.as_ref() != Some(&fault);
        self.live = false;
        self.status = None;
        self.fault = Some(fault);
        self.valid_from = now;
        self.standing = Standing::default();
        self.covers_floor = false;
        news
    }

    pub(super) fn take_sample(&mut self, sample: &Sample, life: Life) -> Taken {
        if sample.asked < self.valid_from || self.uuid() != Some(sample.server) {
            return Taken::Ignored;
        }
        let taken = match &self.last {
            None => Taken::First,
            Some(last) => compare(last, sample, self.live),
        };
        match taken {
            Taken::Ignored => return Taken::Ignored,
            Taken::NewEpoch => {
                self.begin_epoch(life);
                // Answers still under way may be of the epoch that ended.
                self.valid_from = sample.answered;
            }
            Taken::Grown | Taken::First => self.previous = self.last.take().map(|last| last.set),
        }
        self.last = Some(Evidence {
            set: Arc::clone(&sample.set),
            asked: sample.asked,
            answered: sample.answered,
        });
        self.live = true;
        self.fault = None;
        taken
    }

    fn begin_epoch(&mut self, life: Life) {
        self.life = life;
        self.epoch += 1;
        self.previous = None;
        self.standing = Standing::default();
        self.covers_floor = false;
    }

    pub(super) fn measure(&mut self, ring: &Ring, floor: &Floor) {
        let Some(set) = self
            .last
            .as_ref()
            .filter(|_| self.live)
            .map(|last| &last.set)
        else {
            return;
        };
        self.standing = ring.standing(set);
        self.covers_floor = set.contains_set(&floor.set);
    }
}

/// Tells growth from a reset, and both from an answer that was overtaken.
fn compare(last: &Evidence, sample: &Sample, live: bool) -> Taken {
    let overtaken = sample.answered < last.asked;
    let later = sample.asked >= last.answered;
    if overtaken {
        return Taken::Ignored;
    }
    if sample.set.contains_set(&last.set) {
        return if live { Taken::Grown } else { Taken::First };
    }
    // Both questions were under way together: the smaller answer is the older.
    if later {
        Taken::NewEpoch
    } else {
        Taken::Ignored
    }
}
