//! The slots of one shard, found with one cache miss.
//!
//! A session that is asked for has mostly not been touched for a while, so its
//! memory is cold, and fetching it is most of a look-up's time. Hence slots of
//! one cache line in one array, each near the place its key names (linear
//! probing), and nothing beside it that would have to be fetched first. The
//! array grows by a quarter, so that even right after growing little is unused.

use super::slot::Slot;

/// At most this share of the places is in use, in eighths.
const FULL_EIGHTHS: usize = 6;
const PLACES_MIN: usize = 8;
/// Places looked at together.
const AT_ONCE: usize = 4;

/// A table of slots by key. No key is 0: that marks a free place.
#[derive(Debug, Default)]
pub(super) struct Table {
    places: Vec<Slot>,
    len: usize,
}

impl Table {
    pub(super) fn find(&self, key: u128) -> Option<&Slot> {
        self.position(key).map(|at| &self.places[at])
    }

    pub(super) fn find_mut(&mut self, key: u128) -> Option<&mut Slot> {
        self.position(key).map(|at| &mut self.places[at])
    }

    /// The slot of `key`, made if there is none; true when it was.
    pub(super) fn find_or_add(&mut self, key: u128) -> (bool, &mut Slot) {
        if let Some(at) = self.position(key) {
            return (false, &mut self.places[at]);
        }
        if self.len >= self.places.len() * FULL_EIGHTHS / 8 {
            let more = self.places.len() + self.places.len() / 4;
            self.resize(more.max(PLACES_MIN));
        }
        let slot = Slot {
            key,
            ..Slot::default()
        };
        let at = self.put(slot);
        self.len += 1;
        (true, &mut self.places[at])
    }

    pub(super) fn remove(&mut self, key: u128) -> Option<Slot> {
        self.position(key).map(|at| self.take(at))
    }

    /// Removes the slots for which `keep` is false. May ask twice about a slot
    /// that stays.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&Slot) -> bool) {
        let mut at = 0;
        while at < self.places.len() {
            if self.places[at].key == 0 || keep(&self.places[at]) {
                at += 1;
            } else {
                // Another slot may now be in this place.
                self.take(at);
            }
        }
    }

    /// Gives memory back when most of it is unused; true when it did.
    pub(super) fn shrink(&mut self) -> bool {
        let sparse = self.places.len() > 64 && self.len < self.places.len() / 8;
        if sparse {
            self.resize((self.len * 2).max(PLACES_MIN));
        }
        sparse
    }

    /// Where a key is looked for first: keys are hashes, so any part of one
    /// spreads evenly.
    fn home(&self, key: u128) -> usize {
        let low = u128::from(key as u64);
        ((low * self.places.len() as u128) >> 64) as usize
    }

    fn after(&self, at: usize) -> usize {
        if at + 1 == self.places.len() {
            0
        } else {
            at + 1
        }
    }

    fn position(&self, key: u128) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let ends = |place: &Slot| (place.key == key) | (place.key == 0);
        let mut at = self.home(key);
        // There is always a free place, where this ends.
        loop {
            let end = self.places.len().min(at + AT_ONCE);
            // No branch depends on what is read, so that the misses overlap.
            let found = self.places[at..end]
                .iter()
                .rev()
                .fold(0u32, |found, place| found << 1 | u32::from(ends(place)));
            if found != 0 {
                let at = at + found.trailing_zeros() as usize;
                return (self.places[at].key == key).then_some(at);
            }
            at = if end == self.places.len() { 0 } else { end };
        }
    }

    fn put(&mut self, slot: Slot) -> usize {
        let mut at = self.home(slot.key);
        while self.places[at].key != 0 {
            at = self.after(at);
        }
        self.places[at] = slot;
        at
    }

    /// Empties a place, moving up what would not be found past it otherwise
    /// (Knuth, TAOCP vol. 3, 6.4, algorithm R).
    fn take(&mut self, at: usize) -> Slot {
        let taken = self.places[at];
        let (mut hole, mut next) = (at, self.after(at));
        while self.places[next].key != 0 {
            let home = self.home(self.places[next].key);
            let distance = |from: usize, to: usize| {
                if to >= from {
                    to - from
                } else {
                    to + self.places.len() - from
                }
            };
            if distance(home, next) >= distance(hole, next) {
                self.places[hole] = self.places[next];
                hole = next;
            }
            next = self.after(next);
        }
        self.places[hole] = Slot::default();
        self.len -= 1;
        taken
    }

    fn resize(&mut self, places: usize) {
        let old = std::mem::replace(&mut self.places, vec![Slot::default(); places]);
        for slot in old {
            if slot.key != 0 {
                self.put(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// Few keys with few homes, so that they crowd and wrap around the end.
    fn key(n: u8) -> u128 {
        let home = u128::from(n % 4) << 62;
        home + u128::from(n) + 1
    }

    proptest! {
        #[test]
        fn it_behaves_as_a_map(steps in prop::collection::vec((0u8..4, any::<u8>()), 0..400)) {
            let (mut table, mut model) = (Table::default(), HashMap::new());
            for (what, n) in steps {
                let key = key(n);
                match what {
                    0 | 1 => {
                        let (added, slot) = table.find_or_add(key);
                        prop_assert_eq!(added, model.insert(key, u64::from(n)).is_none());
                        slot.gnos[0] = u64::from(n);
                    }
                    2 => {
                        let removed = table.remove(key).map(|slot| slot.gnos[0]);
                        prop_assert_eq!(removed, model.remove(&key));
                    }
                    _ => {
                        table.retain(|slot| slot.gnos[0] % 3 != u64::from(n % 3));
                        model.retain(|_, gno| *gno % 3 != u64::from(n % 3));
                        table.shrink();
                    }
                }
                prop_assert_eq!(table.len, model.len());
                for n in 0..=255 {
                    let found = table.find(self::key(n)).map(|slot| slot.gnos[0]);
                    prop_assert_eq!(found, model.get(&self::key(n)).copied());
                }
            }
        }
    }
}
