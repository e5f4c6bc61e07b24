//! What each session wrote and where it last read: bounded, expiring, exact.
//!
//! A session costs one 64-byte slot while something about it is still unsettled,
//! and nothing otherwise. Three rules keep forgetting safe:
//!
//! - **settled**: a slot whose requirement lies inside the fleet's floor is
//!   dropped, because no server below the floor may serve any session;
//! - **expired**: a slot older than the time to live is dropped, because no
//!   replica staler than that may serve any session ([`Limits::staleness_max`]);
//! - **dropped under pressure**: when there is no room, the session's bucket is
//!   marked, and every session of that bucket reads from the source until the
//!   time to live has passed.
//!
//! Keys are kept as 128-bit keyed hashes. Two sessions that share one would be
//! treated as one session, which can only make a read wait longer.
//! Pure: locks, but no tasks, no I/O, no clock.

mod shard;
mod sids;
mod slot;
mod table;

#[cfg(test)]
mod tests;

use std::hash::Hasher;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use siphasher::sip128::{Hasher128, SipHasher13};

use crate::fleet::{Floor, Life};
use crate::gtid::GtidSet;
use crate::moment::Moment;
use crate::requirement::Requirement;
use shard::Shard;
use sids::Sids;
use slot::Tick;

const SHARDS: usize = 1024;
const BUCKETS: usize = 1 << 16;
/// Intervals a session's own writes may have before they are coarsened.
const INTERVALS_MAX: usize = 16;
/// Intervals past which a session is dropped rather than kept.
const INTERVALS_HARD_MAX: usize = 1024;

/// How many sessions, for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most unsettled sessions kept.
    pub sessions_max: usize,
    /// How long a session is remembered after its last write or read.
    pub ttl: Duration,
    /// How long after Causeway's answer the read may start on the server.
    pub answer_ttl: Duration,
}

impl Limits {
    /// The staleness past which a replica may serve no session: all that an
    /// expired slot could have asked for is older than this. A tenth of the time
    /// to live is left for transactions that show on some server before the
    /// source lists them as executed (group commit, semi-synchronous waits).
    pub fn staleness_max(&self) -> Duration {
        self.ttl
            .saturating_sub(self.answer_ttl)
            .saturating_sub(Tick::SPAN * 2)
            .saturating_sub(self.ttl / 10)
    }
}

/// A session's key, hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(u128);

/// Which servers the session's reads may have seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Where the newest read was sent.
    pub last: Option<Life>,
    /// Where the reads before that were sent, as long as no later one is known
    /// to cover all that they showed. (They start up to [`Limits::answer_ttl`]
    /// after Causeway's answer.)
    pub before: Option<Life>,
    /// There are more such servers than these two.
    pub crowded: bool,
}

/// What is known of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// What a server must have executed to show the session's writes.
    pub requirement: Requirement,
    /// Where it read.
    pub seen: Seen,
    /// Something about this session could not be kept: only the source will do.
    pub dropped: bool,
    /// When this was known.
    pub as_of: Moment,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Kept {
    /// Remembered.
    Stored,
    /// No room: the session reads from the source until its time has passed.
    Dropped,
}

/// Counters since the start.
#[derive(Debug, Default)]
pub struct Counters {
    /// Slots dropped because nothing was left to ask for.
    pub settled: AtomicU64,
    /// Slots dropped because their time had passed.
    pub expired: AtomicU64,
    /// Writes and reads that found no room.
    pub dropped: AtomicU64,
}

/// The table of all sessions.
#[derive(Debug)]
pub struct Sessions {
    limits: Limits,
    staleness_max: Duration,
    hash_key: [u8; 16],
    shards: Box<[Mutex<Shard>]>,
    sids: Sids,
    len: AtomicUsize,
    buckets: Box<[AtomicU32]>,
    last_drop: AtomicU32,
    counters: Counters,
}

impl Sessions {
    /// An empty table. `hash_key` should be random, so that nobody can choose
    /// session keys that collide.
    pub fn new(limits: Limits, hash_key: [u8; 16]) -> Self {
        Self {
            limits,
            staleness_max: limits.staleness_max(),
            hash_key,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            sids: Sids::default(),
            len: AtomicUsize::new(0),
            buckets: (0..BUCKETS).map(|_| AtomicU32::new(0)).collect(),
            last_drop: AtomicU32::new(0),
            counters: Counters::default(),
        }
    }

    /// The hashed form of a session's name.
    pub fn key(&self, session: &str) -> Key {
        let mut hasher = SipHasher13::new_with_key(&self.hash_key);
        hasher.write(session.as_bytes());
        // 0 marks a free place in the table.
        Key(hasher.finish128().as_u128().max(1))
    }

    /// Remembers that the session wrote `wrote`.
    ///
    /// `source_executed` serves to coarsen a session with very many scattered
    /// writes to "all the source has", a superset that can be satisfied.
    pub fn write(
        &self,
        key: Key,
        wrote: &Requirement,
        floor: &Floor,
        source_executed: Option<&GtidSet>,
        now: Moment,
    ) -> Kept {
        let mut shard = self.shard(key).lock();
        let before = shard.requirement(key, &self.sids);
        let unsettled = Some(before)
            .filter(|need| !need.met_by(&floor.set))
            .unwrap_or_default();
        let mut need = unsettled.and(wrote);
        if let (Requirement::Set(set), Some(source)) = (&need, source_executed)
            && set.interval_count() > INTERVALS_MAX
        {
            need = Requirement::above(&set.union(source), &floor.set);
        }
        if matches!(&need, Requirement::Set(set) if set.interval_count() > INTERVALS_HARD_MAX)
            || !self.has_room(&shard, key)
        {
            drop(shard);
            return self.drop_session(key, now);
        }
        let added = shard.set_requirement(key, need, &self.sids, Tick::after(now, self.limits.ttl));
        self.len.fetch_add(usize::from(added), Ordering::Relaxed);
        Kept::Stored
    }

    /// Replaces the session's requirement by what is left of it after `lost`
    /// turned out to be gone from the source for good.
    pub fn rebase(&self, key: Key, lost: &GtidSet) {
        let mut shard = self.shard(key).lock();
        let need = shard.requirement(key, &self.sids);
        if !need.is_nothing() {
            shard.replace_requirement(
                key,
                Requirement::of(need.to_set().subtract(lost)),
                &self.sids,
            );
        }
    }

    /// What is known of the session.
    pub fn state(&self, key: Key, now: Moment) -> State {
        let dropped = self.is_dropped(key, now);
        let shard = self.shard(key).lock();
        let Some(slot) = shard.slot(key).filter(|slot| slot.expires > Tick::at(now)) else {
            return State {
                dropped,
                as_of: now,
                ..State::default()
            };
        };
        State {
            requirement: shard.requirement_of(slot, &self.sids),
            seen: slot.seen(),
            dropped,
            as_of: now,
        }
    }

    /// Remembers that a read of the session was sent to the server living
    /// `life`. With `known`, the server was chosen so as to have all that the
    /// reads known when the request arrived may have shown; without, it was
    /// chosen with no regard to them.
    pub fn read(&self, key: Key, life: Life, known: Option<&State>, now: Moment) -> Kept {
        let mut shard = self.shard(key).lock();
        if !self.has_room(&shard, key) {
            drop(shard);
            return self.drop_session(key, now);
        }
        let added = shard.read(key, life, known, now, &self.limits);
        self.len.fetch_add(usize::from(added), Ordering::Relaxed);
        Kept::Stored
    }

    /// Forgets the session at its owner's wish; false when it was not known.
    pub fn forget(&self, key: Key) -> bool {
        let removed = self.shard(key).lock().remove(key);
        self.len.fetch_sub(usize::from(removed), Ordering::Relaxed);
        removed
    }

    /// Number of shards, for [`Sessions::sweep`].
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Drops the settled and the expired slots of one shard. Locks that shard
    /// only, so that decisions go on.
    pub fn sweep(&self, shard: usize, floor: &Floor, now: Moment) {
        let mut shard = self.shards[shard].lock();
        let swept = shard.sweep(floor, &self.sids, &self.limits, now);
        drop(shard);
        self.len
            .fetch_sub(swept.settled + swept.expired, Ordering::Relaxed);
        self.counters
            .settled
            .fetch_add(swept.settled as u64, Ordering::Relaxed);
        self.counters
            .expired
            .fetch_add(swept.expired as u64, Ordering::Relaxed);
    }

    /// Slots in use.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// True when no session is unsettled.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// More than half of the slots are in use.
    pub fn under_pressure(&self) -> bool {
        self.len() > self.limits.sessions_max / 2
    }

    /// The limits given at the start.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// [`Limits::staleness_max`], worked out once.
    pub fn staleness_max(&self) -> Duration {
        self.staleness_max
    }

    /// Counters since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn shard(&self, key: Key) -> &Mutex<Shard> {
        // The low bits choose the place inside the shard.
        &self.shards[(key.0 >> 64) as usize % SHARDS]
    }

    fn bucket(&self, key: Key) -> &AtomicU32 {
        &self.buckets[(key.0 >> 96) as usize % BUCKETS]
    }

    fn has_room(&self, shard: &Shard, key: Key) -> bool {
        self.len.load(Ordering::Relaxed) < self.limits.sessions_max || shard.slot(key).is_some()
    }

    /// Gives up remembering the session: it reads from the source until its time
    /// has passed, and so do the sessions that share its bucket.
    pub fn drop_session(&self, key: Key, now: Moment) -> Kept {
        let until = Tick::after(now, self.limits.ttl).0;
        self.bucket(key).fetch_max(until, Ordering::Release);
        self.last_drop.fetch_max(until, Ordering::Release);
        self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        Kept::Dropped
    }

    fn is_dropped(&self, key: Key, now: Moment) -> bool {
        let now = Tick::at(now).0;
        self.last_drop.load(Ordering::Acquire) > now
            && self.bucket(key).load(Ordering::Acquire) > now
    }
}
