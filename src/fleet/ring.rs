//! The source's executed sets over time, on one clock.
//!
//! Staleness of a replica is now minus the newest moment at which everything
//! the source had executed is executed on the replica. A sample is dated by the
//! moment just before it was asked for: the source had executed at most that set
//! then, so the date can only make a replica look older, never fresher.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::gtid::GtidSet;
use crate::moment::Moment;

/// Most entries kept; past it the older half is thinned to every second entry.
const ENTRIES_MAX: usize = 2048;
/// Most heap bytes of sets kept, for sources whose history has many gaps.
const BYTES_MAX: usize = 16 << 20;

#[derive(Debug)]
struct Entry {
    /// When the set was first seen.
    first_seen: Moment,
    /// The newest moment at which the source had executed no more than the set.
    valid_at: Moment,
    set: Arc<GtidSet>,
    bytes: usize,
}

/// How a replica stands against the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// All that the source had executed at this moment is executed; `None` when
    /// that lies before the ring.
    pub(crate) fresh_as_of: Option<Moment>,
    /// When the oldest thing still missing was first seen on the source; `None`
    /// when nothing known is missing.
    pub(crate) missing_since: Option<Moment>,
}

/// A bounded history of the source's executed set.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    entries: VecDeque<Entry>,
    bytes: usize,
}

impl Ring {
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }

    /// Records that the source reported `set` when asked at `asked`.
    pub(crate) fn record(&mut self, set: &Arc<GtidSet>, asked: Moment, answered: Moment) {
        if let Some(newest) = self.entries.back_mut() {
            if newest.set == *set {
                newest.valid_at = newest.valid_at.max(asked);
                return;
            }
            if !set.contains_set(&newest.set) {
                self.clear();
            }
        }
        let bytes = set.heap_bytes();
        self.bytes += bytes;
        self.entries.push_back(Entry {
            first_seen: answered,
            valid_at: asked,
            set: Arc::clone(set),
            bytes,
        });
        if self.entries.len() > ENTRIES_MAX || (self.bytes > BYTES_MAX && self.entries.len() > 8) {
            self.thin();
        }
    }

    /// Where a server that executed `set` stands.
    pub(crate) fn standing(&self, set: &GtidSet) -> Standing {
        let Some(newest) = self.entries.back() else {
            return Standing::default();
        };
        if set.contains_set(&newest.set) {
            return Standing {
                fresh_as_of: Some(newest.valid_at),
                missing_since: None,
            };
        }
        let covered = self
            .entries
            .partition_point(|entry| set.contains_set(&entry.set));
        Standing {
            fresh_as_of: covered
                .checked_sub(1)
                .map(|last| self.entries[last].valid_at),
            missing_since: Some(self.entries[covered].first_seen),
        }
    }

    /// Drops every second entry of the older half. A replica between two kept
    /// entries then counts as a little staler than it is, never as fresher.
    fn thin(&mut self) {
        let half = self.entries.len() / 2;
        let mut index = 0;
        let mut freed = 0;
        let mut dropped_first_seen = None;
        self.entries.retain_mut(|entry| {
            index += 1;
            let keep = index > half || index % 2 == 0;
            if keep {
                // What was new in the dropped entry is new in this one now.
                entry.first_seen = dropped_first_seen.take().unwrap_or(entry.first_seen);
            } else {
                freed += entry.bytes;
                dropped_first_seen = Some(entry.first_seen);
            }
            keep
        });
        self.bytes -= freed;
    }
}
