//! One lock's worth of sessions.

use std::collections::HashMap;
use std::sync::Arc;

use super::sids::Sids;
use super::slot::{Form, Slot, Tick};
use super::table::Table;
use super::{Key, Limits, State};
use crate::fleet::{Floor, Life};
use crate::gtid::{Gtid, GtidSet, Sid};
use crate::moment::Moment;
use crate::requirement::Requirement;

/// What a sweep removed.
#[derive(Debug, Default)]
pub(super) struct Swept {
    pub(super) settled: usize,
    pub(super) expired: usize,
}

#[derive(Debug, Default)]
pub(super) struct Shard {
    slots: Table,
    /// Requirements that do not fit a slot.
    long: HashMap<u128, Arc<GtidSet>>,
}

impl Shard {
    pub(super) fn slot(&self, key: Key) -> Option<&Slot> {
        self.slots.find(key.0)
    }

    pub(super) fn requirement(&self, key: Key, sids: &Sids) -> Requirement {
        self.slot(key)
            .map(|slot| self.requirement_of(slot, sids))
            .unwrap_or_default()
    }

    pub(super) fn requirement_of(&self, slot: &Slot, sids: &Sids) -> Requirement {
        match slot.form {
            Form::Nothing => Requirement::Nothing,
            Form::One => Requirement::One(gtid(slot.gnos[0], slot, sids)),
            Form::UpTo => Requirement::UpTo {
                sid: sids.get(slot.sid),
                gno: slot.gnos[0],
            },
            Form::Few => Requirement::of(few(slot, sids).collect()),
            Form::Long => Requirement::Set(Arc::clone(
                self.long
                    .get(&slot.key)
                    .expect("a long slot has its set beside it"),
            )),
        }
    }

    /// Sets the requirement, making a slot if there is none; true when it did.
    pub(super) fn set_requirement(
        &mut self,
        key: Key,
        need: Requirement,
        sids: &Sids,
        expires: Tick,
    ) -> bool {
        let (added, slot) = self.slots.find_or_add(key.0);
        slot.expires = slot.expires.max(expires);
        write(slot, &mut self.long, need, sids);
        added
    }

    /// Sets the requirement of a slot that exists, leaving its time alone.
    pub(super) fn replace_requirement(&mut self, key: Key, need: Requirement, sids: &Sids) {
        if let Some(slot) = self.slots.find_mut(key.0) {
            write(slot, &mut self.long, need, sids);
        }
    }

    /// Notes a read, making a slot if there is none; true when it did.
    pub(super) fn read(
        &mut self,
        key: Key,
        life: Life,
        known: Option<&State>,
        now: Moment,
        limits: &Limits,
    ) -> bool {
        let (added, slot) = self.slots.find_or_add(key.0);
        slot.expires = slot.expires.max(Tick::after(now, limits.ttl));
        slot.read(life, known, now, limits.answer_ttl);
        added
    }

    pub(super) fn remove(&mut self, key: Key) -> bool {
        if self.slots.remove(key.0).is_none() {
            return false;
        }
        self.long.remove(&key.0);
        true
    }

    pub(super) fn sweep(
        &mut self,
        floor: &Floor,
        sids: &Sids,
        limits: &Limits,
        now: Moment,
    ) -> Swept {
        let mut swept = Swept::default();
        let now = Tick::at(now);
        let long = &mut self.long;
        self.slots.retain(|slot| {
            let expired = slot.expires <= now;
            let settled = !expired
                && slot.reads_started_by(floor.as_of, limits.answer_ttl)
                && inside(slot, long, sids, &floor.set);
            swept.expired += usize::from(expired);
            swept.settled += usize::from(settled);
            if (expired || settled) && slot.form == Form::Long {
                long.remove(&slot.key);
            }
            !(expired || settled)
        });
        if self.slots.shrink() {
            self.long.shrink_to_fit();
        }
        swept
    }
}

/// The transactions of a slot of the form [`Form::Few`].
fn few(slot: &Slot, sids: &Sids) -> impl Iterator<Item = Gtid> {
    let gnos = slot.gnos.into_iter().filter(|gno| *gno > 0);
    gnos.map(|gno| gtid(gno, slot, sids))
}

fn gtid(gno: u64, slot: &Slot, sids: &Sids) -> Gtid {
    let sid = sids.get(slot.sid);
    Gtid { sid, gno }
}

/// Two or three transactions of one UUID and tag, as they fit a slot.
fn as_few(set: &GtidSet) -> Option<(&Sid, [u64; 3])> {
    let (sid, intervals) = set.sids().next()?;
    if set.sids().len() > 1 || intervals.count() > 3 {
        return None;
    }
    let mut gnos = [0; 3];
    let each = intervals.iter().flat_map(|(start, end)| start..=end);
    for (place, gno) in gnos.iter_mut().zip(each) {
        *place = gno;
    }
    Some((sid, gnos))
}

fn write(slot: &mut Slot, long: &mut HashMap<u128, Arc<GtidSet>>, need: Requirement, sids: &Sids) {
    let numbered = match &need {
        Requirement::One(Gtid { sid, gno }) => {
            sids.number(sid).map(|sid| (Form::One, sid, [*gno, 0, 0]))
        }
        Requirement::UpTo { sid, gno } => {
            sids.number(sid).map(|sid| (Form::UpTo, sid, [*gno, 0, 0]))
        }
        Requirement::Nothing => Some((Form::Nothing, 0, [0; 3])),
        Requirement::Set(set) => {
            as_few(set).and_then(|(sid, gnos)| Some((Form::Few, sids.number(sid)?, gnos)))
        }
    };
    if slot.form == Form::Long {
        long.remove(&slot.key);
    }
    let (form, sid, gnos) = numbered.unwrap_or((Form::Long, 0, [0; 3]));
    if form == Form::Long {
        let set = match need {
            Requirement::Set(set) => set,
            other => Arc::new(other.to_set()),
        };
        long.insert(slot.key, set);
    }
    (slot.form, slot.sid, slot.gnos) = (form, sid, gnos);
}

fn inside(slot: &Slot, long: &HashMap<u128, Arc<GtidSet>>, sids: &Sids, floor: &GtidSet) -> bool {
    match slot.form {
        Form::Nothing => true,
        Form::One => floor.contains(&gtid(slot.gnos[0], slot, sids)),
        Form::UpTo => floor.watermark(&sids.get(slot.sid)) >= slot.gnos[0],
        Form::Few => few(slot, sids).all(|gtid| floor.contains(&gtid)),
        Form::Long => long
            .get(&slot.key)
            .is_some_and(|set| floor.contains_set(set)),
    }
}
