//! What is counted for one policy, over all its rounds. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::checker::{Checker, Read, ReadVerdict, Violation, ViolationKind};
use super::recorder::Routing;

/// Longer latencies are counted as this.
const LATENCY_MAX_US: u64 = 60_000_000;
/// Different errors (and reasons) told apart; the rest is summed up as "other".
const LABELS_MAX: usize = 40;
/// Violations shown with their details.
const EXAMPLES_MAX: usize = 10;

/// The counts of one policy.
#[derive(Debug)]
pub(super) struct PolicyStats {
    pub(super) elapsed: Duration,
    pub(super) cycles: u64,
    pub(super) writes: u64,
    pub(super) reads: u64,
    /// Reads of which it is known who answered, and those that a replica did.
    pub(super) located: u64,
    pub(super) off_source: u64,
    /// Not degraded, and stale (see [`ReadVerdict::is_stale`]).
    pub(super) stale: u64,
    /// Not degraded, and older than what the session had seen of the row.
    pub(super) went_back: u64,
    pub(super) degraded: u64,
    pub(super) degraded_stale: u64,
    /// Reads after a write that Causeway was not told of, or reported as lost.
    pub(super) unpromised: u64,
    /// Reads that broke at least one promise.
    pub(super) breaking_reads: u64,
    pub(super) violations: BTreeMap<ViolationKind, u64>,
    pub(super) examples: Vec<Violation>,
    pub(super) errors: BTreeMap<String, u64>,
    pub(super) reasons: BTreeMap<String, u64>,
    pub(super) read_us: Histogram<u64>,
    pub(super) write_us: Histogram<u64>,
}

impl Default for PolicyStats {
    fn default() -> Self {
        let histogram = || Histogram::new_with_bounds(1, LATENCY_MAX_US, 3);
        let histogram = || histogram().expect("the bounds are constants that fit");
        Self {
            elapsed: Duration::ZERO,
            cycles: 0,
            writes: 0,
            reads: 0,
            located: 0,
            off_source: 0,
            stale: 0,
            went_back: 0,
            degraded: 0,
            degraded_stale: 0,
            unpromised: 0,
            breaking_reads: 0,
            violations: BTreeMap::new(),
            examples: Vec::new(),
            errors: BTreeMap::new(),
            reasons: BTreeMap::new(),
            read_us: histogram(),
            write_us: histogram(),
        }
    }
}

impl PolicyStats {
    pub(super) fn count_write(&mut self, took: Duration) {
        self.writes += 1;
        record(&mut self.write_us, took);
    }

    pub(super) fn count_read(
        &mut self,
        read: &Read,
        verdict: &ReadVerdict,
        routing: &Routing,
        took: Duration,
    ) {
        self.reads += 1;
        if let Some(off_source) = routing.off_source {
            self.count_located(off_source);
        }
        self.breaking_reads += u64::from(!verdict.broken.is_empty());
        if read.degraded {
            self.degraded += 1;
            self.degraded_stale += u64::from(verdict.is_stale() || verdict.went_back);
        } else {
            self.stale += u64::from(verdict.is_stale());
            self.went_back += u64::from(verdict.went_back);
        }
        count(&mut self.reasons, &routing.reason);
        record(&mut self.read_us, took);
    }

    pub(super) fn count_located(&mut self, off_source: bool) {
        self.located += 1;
        self.off_source += u64::from(off_source);
    }

    pub(super) fn count_error(&mut self, label: &str) {
        count(&mut self.errors, label);
    }

    /// Takes over what a round's checker found.
    pub(super) fn absorb(&mut self, checker: &Checker) {
        for (kind, found) in checker.counts() {
            *self.violations.entry(*kind).or_default() += found;
        }
        let room = EXAMPLES_MAX.saturating_sub(self.examples.len());
        let new = checker.examples().iter().take(room).cloned();
        self.examples.extend(new);
    }

    pub(super) fn violations_total(&self) -> u64 {
        self.violations.values().sum()
    }
}

fn record(histogram: &mut Histogram<u64>, took: Duration) {
    let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    histogram.saturating_record(us.max(1));
}

/// Counts a label, without letting ever-new labels fill the memory.
fn count(counts: &mut BTreeMap<String, u64>, label: &str) {
    let known = counts.contains_key(label) || counts.len() < LABELS_MAX;
    let label = if known { label } else { "other" };
    if let Some(known) = counts.get_mut(label) {
        *known += 1;
    } else {
        counts.insert(label.to_owned(), 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ever_new_errors_are_summed_up() {
        let mut stats = PolicyStats::default();
        for number in 0..1_000 {
            stats.count_error(&format!("error {number}"));
        }
        assert_eq!(stats.errors.len(), LABELS_MAX + 1);
        assert_eq!(stats.errors.values().sum::<u64>(), 1_000);
    }

    #[test]
    fn a_latency_beyond_the_histogram_counts_as_its_longest() {
        let mut stats = PolicyStats::default();
        stats.count_write(Duration::from_secs(3_600));
        assert!(stats.write_us.max() >= LATENCY_MAX_US);
    }
}
