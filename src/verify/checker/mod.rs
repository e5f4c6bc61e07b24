//! Checks a history of reads and writes against what the reads were promised.
//!
//! Works from outside: it knows when operations began and ended and what they
//! returned, and nothing of GTIDs, replicas or Causeway. Checks while the run
//! goes on, with a compact state per row, so that an hour of traffic fits in
//! memory. Pure: no clock, no I/O, no `async`.
//!
//! Three rules keep it from crying wolf. Operations that overlap in time are not
//! ordered. A write whose outcome is unknown is never required. Memory is saved
//! only in ways that make a requirement older, never newer.

mod history;
mod timeline;
mod violation;

use std::collections::{BTreeMap, HashMap, VecDeque};

pub use history::{
    Consistency, KeyId, NOBODY, Operation, Promise, Read, SessionId, Version, Write, WriteOutcome,
};
pub use timeline::{Earlier, Limits};
pub use violation::{Violation, ViolationKind};

use timeline::Timeline;

/// How many begun versions of a row are remembered one by one; an older version
/// is taken to have existed.
const BEGUN_MAX: usize = 1_024;

/// What one read showed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadVerdict {
    /// It missed a write that its own session had acknowledged, whatever was
    /// promised.
    pub missed_own_write: bool,
    /// Its session had already seen a newer version, whatever was promised.
    pub went_back: bool,
    /// The promises that it broke.
    pub broken: Vec<ViolationKind>,
}

impl ReadVerdict {
    /// Stale in the sense of the reports: an own write was missed, or a promise
    /// about other sessions' writes was broken.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        use ViolationKind::{BoundedStaleness, RealTime, Strong};
        let about_others =
            |kind: &ViolationKind| matches!(kind, BoundedStaleness | Strong | RealTime);
        self.missed_own_write || self.broken.iter().any(about_others)
    }
}

/// The checker: fed with operations, it collects violations.
#[derive(Debug, Default)]
pub struct Checker {
    limits: Limits,
    keys: HashMap<KeyId, KeyState>,
    /// What each session has seen of each row.
    floors: HashMap<(SessionId, KeyId), Timeline>,
    examples: Vec<Violation>,
    counts: BTreeMap<ViolationKind, u64>,
}

/// What is known of one row.
#[derive(Debug, Default)]
struct KeyState {
    acknowledged: Timeline,
    seen: Timeline,
    /// The versions begun, ascending.
    begun: VecDeque<Version>,
    /// Whether versions older than the first of `begun` existed.
    older_existed: bool,
}

impl Checker {
    /// A checker that keeps what `limits` allow.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Checks a whole history, in whatever order it is listed.
    #[must_use]
    pub fn check(operations: &[Operation], limits: Limits) -> Self {
        let mut checker = Self::new(limits);
        let mut events: Vec<(u64, bool, &Operation)> = Vec::new();
        for operation in operations {
            events.push((operation.end_us(), true, operation));
            events.push((operation.start_us(), false, operation));
        }
        // Beginnings sort before ends of the same microsecond.
        events.sort_by_key(|(at_us, ended, _)| (*at_us, *ended));
        for (_, ended, operation) in events {
            match (operation, ended) {
                (Operation::Write(write), false) => checker.begin_write(write.key, write.version),
                (Operation::Write(write), true) => checker.end_write(write),
                (Operation::Read(_), false) => {}
                (Operation::Read(read), true) => drop(checker.end_read(read)),
            }
        }
        checker
    }

    /// Tells of a version that was there before the history: readers may be
    /// required to see it, but it is nobody's own write.
    pub fn seed(&mut self, key: KeyId, version: Version) {
        self.begin_write(key, version);
        let point = Earlier {
            session: NOBODY,
            version,
            start_us: 0,
            end_us: 0,
            server: None,
        };
        let state = self.keys.entry(key).or_default();
        state.older_existed = true;
        state.acknowledged.push(point, &self.limits);
    }

    /// A write is about to be sent: from now on its version may be seen.
    pub fn begin_write(&mut self, key: KeyId, version: Version) {
        let state = self.keys.entry(key).or_default();
        if state.begun.back().is_none_or(|last| *last < version) {
            state.begun.push_back(version);
        }
        if state.begun.len() > BEGUN_MAX {
            state.begun.pop_front();
            state.older_existed = true;
        }
    }

    /// A write has ended. Operations are to be fed in the order of their ends.
    pub fn end_write(&mut self, write: &Write) {
        if write.outcome != WriteOutcome::Ok {
            return;
        }
        let point = Earlier {
            session: write.session,
            version: write.version,
            start_us: write.start_us,
            end_us: write.end_us,
            server: None,
        };
        let state = self.keys.entry(write.key).or_default();
        state.acknowledged.push(point, &self.limits);
    }

    /// A read has ended: checks it. Operations are to be fed in the order of
    /// their ends.
    pub fn end_read(&mut self, read: &Read) -> ReadVerdict {
        let (verdict, violations) = self.judge(read);
        for violation in violations {
            *self.counts.entry(violation.kind).or_default() += 1;
            if self.examples.len() < self.limits.examples_max {
                self.examples.push(violation);
            }
        }
        // A version out of nowhere would turn every later read into a violation.
        if !verdict.broken.contains(&ViolationKind::NeverWritten) {
            self.remember(read);
        }
        verdict
    }

    /// The first violations, with their operations.
    #[must_use]
    pub fn examples(&self) -> &[Violation] {
        &self.examples
    }

    /// How many promises were broken, by kind.
    #[must_use]
    pub fn counts(&self) -> &BTreeMap<ViolationKind, u64> {
        &self.counts
    }

    fn judge(&self, read: &Read) -> (ReadVerdict, Vec<Violation>) {
        let mut judgement = Judgement::new(read);
        let Some(state) = self.keys.get(&read.key) else {
            // A row that nobody ever wrote must not be there.
            judgement.never_written(read.seen.is_some());
            return judgement.finish();
        };
        let acknowledged = state.acknowledged.before(read.start_us);
        let own = acknowledged.filter(|write| write.session == read.session);
        let floor = self.floors.get(&(read.session, read.key));
        let floor = floor.and_then(|floor| floor.before(read.start_us));
        judgement.verdict.missed_own_write = judgement.is_missed(own);
        judgement.verdict.went_back = judgement.is_missed(floor);

        let promise = &read.promise;
        judgement.require(promise.own_writes, ViolationKind::ReadYourWrites, own);
        judgement.require(promise.monotonic, ViolationKind::MonotonicReads, floor);
        if let Some(bound_us) = promise.bound_us {
            let old = read.start_us.checked_sub(bound_us);
            let old = old.and_then(|t_us| state.acknowledged.before(t_us));
            judgement.require(true, ViolationKind::BoundedStaleness, old);
        }
        judgement.require(promise.strong, ViolationKind::Strong, acknowledged);
        let seen = state.seen.before(read.start_us);
        judgement.require(promise.strong, ViolationKind::RealTime, seen);
        judgement.never_written(read.seen.is_some_and(|version| !state.may_hold(version)));
        judgement.finish()
    }

    /// Keeps what this read saw as a floor for later ones.
    fn remember(&mut self, read: &Read) {
        let Some(version) = read.seen else { return };
        let point = Earlier {
            session: read.session,
            version,
            start_us: read.start_us,
            end_us: read.end_us,
            server: Some(read.server.clone()),
        };
        let floor = self.floors.entry((read.session, read.key)).or_default();
        floor.push(point.clone(), &self.limits);
        let state = self.keys.entry(read.key).or_default();
        state.seen.push(point, &self.limits);
    }
}

impl KeyState {
    /// Whether a write of this version had begun, as far as is remembered.
    fn may_hold(&self, version: Version) -> bool {
        let older = self.begun.front().is_some_and(|first| version < *first);
        (older && self.older_existed) || self.begun.binary_search(&version).is_ok()
    }
}

/// One read under judgement.
struct Judgement<'a> {
    read: &'a Read,
    verdict: ReadVerdict,
    violations: Vec<Violation>,
}

impl<'a> Judgement<'a> {
    fn new(read: &'a Read) -> Self {
        Self {
            read,
            verdict: ReadVerdict::default(),
            violations: Vec::new(),
        }
    }

    fn is_missed(&self, earlier: Option<&Earlier>) -> bool {
        earlier.is_some_and(|earlier| self.read.seen < Some(earlier.version))
    }

    /// A promised version must have been seen, unless the router said that it
    /// would not be.
    fn require(&mut self, promised: bool, kind: ViolationKind, earlier: Option<&Earlier>) {
        if promised && !self.read.degraded && self.is_missed(earlier) {
            self.break_promise(kind, earlier);
        }
    }

    /// A version out of nowhere means wrong data: no promise excuses it.
    fn never_written(&mut self, out_of_nowhere: bool) {
        if out_of_nowhere {
            self.break_promise(ViolationKind::NeverWritten, None);
        }
    }

    fn break_promise(&mut self, kind: ViolationKind, earlier: Option<&Earlier>) {
        self.verdict.broken.push(kind);
        self.violations.push(Violation {
            kind,
            read: self.read.clone(),
            earlier: earlier.cloned(),
        });
    }

    fn finish(self) -> (ReadVerdict, Vec<Violation>) {
        (self.verdict, self.violations)
    }
}

#[cfg(test)]
mod proptests;
#[cfg(test)]
mod tests;
