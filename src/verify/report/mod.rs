//! What a run found, as data.
//!
//! [`Report`] is the JSON of `--format json`; [`table`] shows the same to people.
//! Fields are only ever added to it. Pure.

mod table;

use std::collections::BTreeMap;

use serde::Serialize;

use super::policy::Policy;
use super::stats::PolicyStats;

/// How many violations are shown in sentences.
const EXAMPLES_MAX: usize = 10;

/// The whole report: one JSON object.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// `kept`, `violated` or `inconclusive`.
    pub verdict: Verdict,
    /// Whether the run was ended early (Ctrl-C).
    pub interrupted: bool,
    /// Seed of the traffic.
    pub seed: u64,
    /// Number of sessions.
    pub clients: u32,
    /// Reads in each cycle.
    pub reads_per_write: u32,
    /// The consistency asked for; `null`: what Causeway is configured to promise.
    pub consistency: Option<&'static str>,
    /// One entry per policy, in the order of the command line.
    pub policies: Vec<PolicyReport>,
}

/// What one policy did.
#[derive(Debug, Clone, Serialize)]
pub struct PolicyReport {
    /// As on the command line: `source`, `sticky:2s`, `rules`, `causeway`, ….
    pub policy: String,
    /// Whether its violations count for the verdict: Causeway's do.
    pub promises: bool,
    /// Seconds of traffic.
    pub seconds: f64,
    /// Complete cycles of a write and its reads, and how many a second.
    pub cycles: u64,
    /// See `cycles`.
    pub cycles_per_s: f64,
    /// Writes acknowledged by the source.
    pub writes: u64,
    /// Reads answered.
    pub reads: u64,
    /// Reads that missed a write which their own session had acknowledged
    /// (whatever was promised), or broke a promised bound or strong consistency.
    /// Degraded reads are not counted here.
    pub stale_reads: u64,
    /// Reads older than what their own session had already seen of the row
    /// (whatever was promised). Degraded reads are not counted here.
    pub monotonic_violations: u64,
    /// Promises broken.
    pub violations: ViolationReport,
    /// Share of the reads that did not go to the source, in percent; `null`
    /// without reads. Through ProxySQL it is a sample.
    pub off_source_pct: Option<f64>,
    /// Latency of a read, from asking for the route to having the row.
    pub read_ms: LatencyReport,
    /// Latency of the writing statement alone.
    pub write_ms: LatencyReport,
    /// Reads for which the router said that the promise was not kept.
    pub degraded_reads: u64,
    /// Those of them that were stale or went back indeed.
    pub degraded_stale_reads: u64,
    /// Reads while Causeway could not be told of a write of the session, or had
    /// reported it as lost in a failover: not held to read-your-writes.
    pub unpromised_reads: u64,
    /// What went wrong, and how often.
    pub errors: BTreeMap<String, u64>,
    /// Why reads went where they went: Causeway's reasons, or the policy's own.
    pub reasons: BTreeMap<String, u64>,
}

/// The promises that were broken.
#[derive(Debug, Clone, Serialize)]
pub struct ViolationReport {
    /// How many; one read can break several promises.
    pub total: u64,
    /// Reads that broke at least one.
    pub reads: u64,
    /// By kind: `read_your_writes`, `monotonic_reads`, `bounded_staleness`,
    /// `strong`, `real_time`, `never_written`.
    pub by_kind: BTreeMap<&'static str, u64>,
    /// The first few, each in a sentence.
    pub examples: Vec<String>,
}

/// A latency in milliseconds; `null` where nothing was measured.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct LatencyReport {
    /// Median.
    pub p50: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
}

/// What the run says about the deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every promise was kept.
    Kept,
    /// A promise of Causeway was broken.
    Violated,
    /// A policy that should have been checked answered no read.
    Inconclusive,
}

impl Verdict {
    /// The exit code of the command.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Kept => 0,
            Self::Violated => 1,
            Self::Inconclusive => 2,
        }
    }

    pub(super) fn of(policies: &[PolicyReport]) -> Self {
        let violated = |policy: &PolicyReport| policy.promises && policy.violations.total > 0;
        if policies.iter().any(violated) {
            Self::Violated
        } else if policies.iter().any(|policy| policy.reads == 0) || policies.is_empty() {
            Self::Inconclusive
        } else {
            Self::Kept
        }
    }
}

impl PolicyReport {
    pub(super) fn new(policy: Policy, stats: &PolicyStats) -> Self {
        let seconds = stats.elapsed.as_secs_f64();
        let examples = stats.examples.iter().take(EXAMPLES_MAX);
        let share = stats.off_source as f64 / stats.located as f64;
        Self {
            policy: policy.to_string(),
            promises: policy == Policy::Causeway,
            seconds: round(seconds),
            cycles: stats.cycles,
            cycles_per_s: round(stats.cycles as f64 / seconds.max(f64::EPSILON)),
            writes: stats.writes,
            reads: stats.reads,
            stale_reads: stats.stale,
            monotonic_violations: stats.went_back,
            violations: ViolationReport {
                total: stats.violations_total(),
                reads: stats.breaking_reads,
                by_kind: (stats.violations.iter())
                    .map(|(kind, found)| (kind.name(), *found))
                    .collect(),
                examples: examples.map(ToString::to_string).collect(),
            },
            off_source_pct: (stats.located > 0).then(|| round(100.0 * share)),
            read_ms: LatencyReport::new(&stats.read_us),
            write_ms: LatencyReport::new(&stats.write_us),
            degraded_reads: stats.degraded,
            degraded_stale_reads: stats.degraded_stale,
            unpromised_reads: stats.unpromised,
            errors: stats.errors.clone(),
            reasons: stats.reasons.clone(),
        }
    }
}

impl LatencyReport {
    fn new(histogram: &hdrhistogram::Histogram<u64>) -> Self {
        let measured = !histogram.is_empty();
        let ms = |us: u64| measured.then(|| round(us as f64 / 1_000.0));
        Self {
            p50: ms(histogram.value_at_quantile(0.5)),
            p99: ms(histogram.value_at_quantile(0.99)),
            max: ms(histogram.max()),
        }
    }
}

/// To three digits: more would be noise.
fn round(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests;
