//! What the report says about planted counts.

use std::sync::Arc;
use std::time::Duration;

use super::{PolicyReport, Report, Verdict};
use crate::verify::checker::{Checker, Consistency, Limits, Promise, Read};
use crate::verify::policy::Policy;
use crate::verify::recorder::Routing;
use crate::verify::stats::PolicyStats;

/// One read of row 1 that should have seen version 5.
fn stats(seen: u64, degraded: bool, promise: Promise) -> PolicyStats {
    let mut checker = Checker::new(Limits::default());
    checker.seed(1, 5);
    let read = Read {
        session: 2,
        key: 1,
        seen: Some(seen),
        start_us: 1_000,
        end_us: 3_000,
        server: Arc::from("db2"),
        promise,
        degraded,
    };
    let verdict = checker.end_read(&read);
    let routing = Routing {
        reason: "replica_fresh".into(),
        off_source: Some(true),
    };
    let mut stats = PolicyStats {
        elapsed: Duration::from_secs(2),
        ..PolicyStats::default()
    };
    stats.count_read(&read, &verdict, &routing, Duration::from_millis(2));
    stats.absorb(&checker);
    stats
}

fn report(policy: Policy, stats: &PolicyStats) -> Report {
    let policies = vec![PolicyReport::new(policy, stats)];
    Report {
        verdict: Verdict::of(&policies),
        interrupted: false,
        seed: 1,
        clients: 8,
        reads_per_write: 4,
        consistency: None,
        policies,
    }
}

fn strong() -> Promise {
    Promise::new(Consistency::Strong, None)
}

#[test]
fn a_broken_promise_of_causeway_fails_the_run_and_is_explained() {
    let report = report(Policy::Causeway, &stats(4, false, strong()));
    assert_eq!(
        (report.verdict, report.verdict.exit_code()),
        (Verdict::Violated, 1)
    );
    let text = report.to_text();
    assert!(
        text.contains("FAILED: Causeway broke 1 promises in 1 reads"),
        "{text}"
    );
    assert!(
        text.contains("session 2 read version 4 of row 1 on db2"),
        "{text}"
    );
}

#[test]
fn what_other_policies_do_is_shown_and_fails_nothing() {
    let report = report(Policy::Random, &stats(4, false, strong()));
    assert_eq!(report.verdict, Verdict::Kept);
    assert_eq!(report.policies[0].stale_reads, 1);
}

#[test]
fn a_degraded_read_is_counted_apart() {
    let report = report(Policy::Causeway, &stats(4, true, strong()));
    let policy = &report.policies[0];
    assert_eq!(report.verdict, Verdict::Kept);
    assert_eq!((policy.stale_reads, policy.degraded_reads), (0, 1));
}

#[test]
fn a_run_without_reads_proves_nothing() {
    let report = report(Policy::Causeway, &PolicyStats::default());
    assert_eq!(
        (report.verdict, report.verdict.exit_code()),
        (Verdict::Inconclusive, 2)
    );
    assert_eq!(report.policies[0].off_source_pct, None);
}

#[test]
fn the_json_has_the_documented_fields() {
    let report = report(Policy::Causeway, &stats(5, false, strong()));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["verdict"], "kept");
    let policy = &json["policies"][0];
    assert_eq!(policy["policy"], "causeway");
    assert_eq!(policy["off_source_pct"], 100.0);
    assert_eq!(policy["read_ms"]["p50"], 2.0);
    assert_eq!(policy["reasons"]["replica_fresh"], 1);
    assert_eq!(policy["violations"]["total"], 0);
    assert_eq!(policy["write_ms"]["p50"], serde_json::Value::Null);
}
