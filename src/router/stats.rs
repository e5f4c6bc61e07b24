//! The router's counters. Plain atomics: the metrics endpoint reads them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::route::{Consistency, Decision, Failure, Reason};

/// Upper bounds of the wait histogram, in microseconds; one bucket more takes
/// what is longer.
pub const WAIT_BUCKETS_US: [u64; 12] = [
    250, 500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 128_000, 1_000_000, 10_000_000,
];

/// Counters since the start.
#[derive(Debug, Default)]
pub struct Stats {
    decisions: [[AtomicU64; Reason::ALL.len()]; Consistency::ALL.len()],
    failures: [[AtomicU64; 2]; Consistency::ALL.len()],
    waits: [AtomicU64; WAIT_BUCKETS_US.len() + 1],
    wait_us: AtomicU64,
    /// Commits reported.
    pub writes: AtomicU64,
    /// Decisions that do not keep the promise.
    pub degraded: AtomicU64,
    /// Decisions that found a write gone from the source.
    pub lost_writes: AtomicU64,
}

impl Stats {
    pub(super) fn decided(&self, consistency: Consistency, decision: &Decision, waited: Duration) {
        self.decisions[consistency as usize][decision.reason.index()]
            .fetch_add(1, Ordering::Relaxed);
        if decision.degraded {
            self.degraded.fetch_add(1, Ordering::Relaxed);
        }
        if decision.lost.is_some() {
            self.lost_writes.fetch_add(1, Ordering::Relaxed);
        }
        if !waited.is_zero() {
            self.waited(waited);
        }
    }

    fn waited(&self, waited: Duration) {
        let us = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        let bucket = WAIT_BUCKETS_US.partition_point(|bound| *bound < us);
        self.waits[bucket].fetch_add(1, Ordering::Relaxed);
        self.wait_us.fetch_add(us, Ordering::Relaxed);
    }

    pub(super) fn failed(&self, consistency: Consistency, failure: &Failure) {
        let kind = usize::from(*failure == Failure::WaitTimeout);
        self.failures[consistency as usize][kind].fetch_add(1, Ordering::Relaxed);
    }

    /// Decisions by promise and reason.
    pub fn decisions(&self, consistency: Consistency, reason: Reason) -> u64 {
        self.decisions[consistency as usize][reason.index()].load(Ordering::Relaxed)
    }

    /// Requests without an answer: (no server, timed out).
    pub fn failures(&self, consistency: Consistency) -> (u64, u64) {
        let [no_server, timeout] = &self.failures[consistency as usize];
        (
            no_server.load(Ordering::Relaxed),
            timeout.load(Ordering::Relaxed),
        )
    }

    /// Requests that had to wait or ask, per bucket of [`WAIT_BUCKETS_US`], and
    /// the sum of their waits in microseconds.
    pub fn waits(&self) -> (Vec<u64>, u64) {
        (
            self.waits
                .iter()
                .map(|bucket| bucket.load(Ordering::Relaxed))
                .collect(),
            self.wait_us.load(Ordering::Relaxed),
        )
    }
}
