//! One lock's worth of sessions.

use std::collections::HashMap;
use std::sync::Arc;

use hashbrown::HashTable;

use super::sids::Sids;
use super::slot::{Form, Slot, Tick};
use super::{Key, Limits, State};
use crate::fleet::{Floor, Life};
use crate::gtid::{Gtid, GtidSet};
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
    slots: HashTable<Slot>,
    /// Requirements that do not fit a slot.
    long: HashMap<u128, Arc<GtidSet>>,
}

/// The key is a keyed hash already.
fn hash(key: u128) -> u64 {
    key as u64
}

impl Shard {
    pub(super) fn slot(&self, key: Key) -> Option<&Slot> {
        self.slots.find(hash(key.0), |slot| slot.key == key.0)
    }

    pub(super) fn requirement(&self, key: Key, sids: &Sids) -> Requirement {
        self.slot(key)
            .map(|slot| self.requirement_of(slot, sids))
            .unwrap_or_default()
    }

    pub(super) fn requirement_of(&self, slot: &Slot, sids: &Sids) -> Requirement {
        match slot.form {
            Form::Nothing => Requirement::Nothing,
            Form::One => Requirement::One(Gtid {
                sid: sids.get(slot.sid),
                gno: slot.gno,
            }),
            Form::UpTo => Requirement::UpTo {
                sid: sids.get(slot.sid),
                gno: slot.gno,
            },
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
        let (added, slot) = slot_mut(&mut self.slots, key);
        slot.expires = slot.expires.max(expires);
        write(slot, &mut self.long, need, sids);
        added
    }

    /// Sets the requirement of a slot that exists, leaving its time alone.
    pub(super) fn replace_requirement(&mut self, key: Key, need: Requirement, sids: &Sids) {
        if let Some(slot) = self.slots.find_mut(hash(key.0), |slot| slot.key == key.0) {
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
        let (added, slot) = slot_mut(&mut self.slots, key);
        slot.expires = slot.expires.max(Tick::after(now, limits.ttl));
        slot.read(life, known, now, limits.answer_ttl);
        added
    }

    pub(super) fn remove(&mut self, key: Key) -> bool {
        let Ok(entry) = self.slots.find_entry(hash(key.0), |slot| slot.key == key.0) else {
            return false;
        };
        entry.remove();
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
        if self.slots.capacity() > 64 && self.slots.len() < self.slots.capacity() / 8 {
            self.slots
                .shrink_to(self.slots.len() * 2, |slot| hash(slot.key));
            self.long.shrink_to_fit();
        }
        swept
    }
}

fn slot_mut(slots: &mut HashTable<Slot>, key: Key) -> (bool, &mut Slot) {
    let mut added = false;
    let entry = slots.entry(hash(key.0), |slot| slot.key == key.0, |slot| hash(slot.key));
    let entry = entry.or_insert_with(|| {
        added = true;
        Slot {
            key: key.0,
            ..Slot::default()
        }
    });
    (added, entry.into_mut())
}

fn write(slot: &mut Slot, long: &mut HashMap<u128, Arc<GtidSet>>, need: Requirement, sids: &Sids) {
    let numbered = match &need {
        Requirement::One(Gtid { sid, gno }) => sids.number(sid).map(|sid| (Form::One, sid, *gno)),
        Requirement::UpTo { sid, gno } => sids.number(sid).map(|sid| (Form::UpTo, sid, *gno)),
        Requirement::Nothing => Some((Form::Nothing, 0, 0)),
        Requirement::Set(_) => None,
    };
    if slot.form == Form::Long {
        long.remove(&slot.key);
    }
    let (form, sid, gno) = numbered.unwrap_or((Form::Long, 0, 0));
    if form == Form::Long {
        let set = match need {
            Requirement::Set(set) => set,
            other => Arc::new(other.to_set()),
        };
        long.insert(slot.key, set);
    }
    (slot.form, slot.sid, slot.gno) = (form, sid, gno);
}

fn inside(slot: &Slot, long: &HashMap<u128, Arc<GtidSet>>, sids: &Sids, floor: &GtidSet) -> bool {
    match slot.form {
        Form::Nothing => true,
        Form::One => floor.contains(&Gtid {
            sid: sids.get(slot.sid),
            gno: slot.gno,
        }),
        Form::UpTo => floor.watermark(&sids.get(slot.sid)) >= slot.gno,
        Form::Long => long
            .get(&slot.key)
            .is_some_and(|set| floor.contains_set(set)),
    }
}
