//! Where all sessions report what they did: the checker and the statistics.
//!
//! The end of an operation is taken under the lock. So operations reach the
//! checker in the order of their ends, and a read that began after a recorded
//! end finds that write already there. The time an operation waits for the lock
//! makes its end later, which only makes the checks more lenient, by microseconds.

use std::time::Duration;

use parking_lot::Mutex;

use super::checker::{Checker, KeyId, Limits, Read, Version, Write};
use super::run_clock::RunClock;
use super::stats::PolicyStats;

/// The lock everyone shares.
#[derive(Debug)]
pub(super) struct Recorder {
    clock: RunClock,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    checker: Checker,
    stats: PolicyStats,
}

/// What the router said about a read.
#[derive(Debug, Clone)]
pub(super) struct Routing {
    pub(super) reason: String,
    /// `None`: only whoever passes the query on knows.
    pub(super) off_source: Option<bool>,
}

/// Counts to show while the run goes on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Glance {
    pub(super) reads: u64,
    pub(super) stale: u64,
    pub(super) errors: u64,
}

impl Recorder {
    /// Goes on with the statistics of earlier rounds, with a new history.
    pub(super) fn new(stats: PolicyStats, limits: Limits, clock: RunClock) -> Self {
        let checker = Checker::new(limits);
        let state = Mutex::new(State { checker, stats });
        Self { clock, state }
    }

    /// Now, in the time of the history.
    pub(super) fn now_us(&self) -> u64 {
        self.clock.now_us()
    }

    /// What a row holds at the start: the last acknowledged version, and any up
    /// to `begun` whose outcome is unknown.
    pub(super) fn seed(&self, key: KeyId, acknowledged: Version, begun: Version) {
        let checker = &mut self.state.lock().checker;
        checker.seed(key, acknowledged);
        for version in acknowledged + 1..=begun {
            checker.begin_write(key, version);
        }
    }

    /// A write is about to be sent. Returns when.
    pub(super) fn begin_write(&self, key: KeyId, version: Version) -> u64 {
        self.state.lock().checker.begin_write(key, version);
        self.clock.now_us()
    }

    /// A write has ended just now. `took`: its latency, if it was acknowledged.
    pub(super) fn end_write(&self, mut write: Write, took: Option<Duration>) -> u64 {
        let mut state = self.state.lock();
        write.end_us = self.clock.now_us();
        state.checker.end_write(&write);
        if let Some(took) = took {
            state.stats.count_write(took);
        }
        write.end_us
    }

    /// A read has ended just now.
    pub(super) fn end_read(&self, mut read: Read, routing: &Routing) {
        let arrived_us = self.clock.now_us();
        let mut state = self.state.lock();
        read.end_us = self.clock.now_us();
        let verdict = state.checker.end_read(&read);
        let took = Duration::from_micros(arrived_us.saturating_sub(read.start_us));
        state.stats.count_read(&read, &verdict, routing, took);
    }

    /// A cycle of a write and its reads is complete.
    pub(super) fn end_cycle(&self) {
        self.state.lock().stats.cycles += 1;
    }

    /// Something went wrong.
    pub(super) fn error(&self, label: &str) {
        self.state.lock().stats.count_error(label);
    }

    /// Somebody asked who answers reads like the last one.
    pub(super) fn located(&self, off_source: bool) {
        self.state.lock().stats.count_located(off_source);
    }

    /// Causeway was not told of a write or has lost it: a read was promised less.
    pub(super) fn unpromised(&self) {
        self.state.lock().stats.unpromised += 1;
    }

    pub(super) fn glance(&self) -> Glance {
        let state = self.state.lock();
        Glance {
            reads: state.stats.reads,
            stale: state.stats.stale + state.stats.degraded_stale,
            errors: state.stats.errors.values().sum(),
        }
    }

    /// Ends the round.
    pub(super) fn finish(&self, elapsed: Duration) -> PolicyStats {
        let mut state = self.state.lock();
        let checker = std::mem::take(&mut state.checker);
        state.stats.absorb(&checker);
        state.stats.elapsed += elapsed;
        std::mem::take(&mut state.stats)
    }
}
