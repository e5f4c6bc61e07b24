//! Hand-made histories: planted violations that must be found, near misses that
//! must not.

use std::sync::Arc;

use super::{
    Checker, Consistency, Limits, Operation, Promise, Read, ViolationKind, Write, WriteOutcome,
};

/// Session 1 writes row 1, session 2 writes row 2, in these tests.
fn wrote(session: u32, version: u64, start_us: u64, end_us: u64) -> Operation {
    Operation::Write(Write {
        session,
        key: session,
        version,
        start_us,
        end_us,
        outcome: WriteOutcome::Ok,
    })
}

fn in_doubt(session: u32, version: u64, start_us: u64, end_us: u64) -> Operation {
    let outcome = WriteOutcome::Unknown("connection lost".into());
    match wrote(session, version, start_us, end_us) {
        Operation::Write(write) => Operation::Write(Write { outcome, ..write }),
        read @ Operation::Read(_) => read,
    }
}

fn read(session: u32, key: u32, seen: Option<u64>, span: (u64, u64), promise: Promise) -> Read {
    Read {
        session,
        key,
        seen,
        start_us: span.0,
        end_us: span.1,
        server: Arc::from("db2"),
        promise,
        degraded: false,
    }
}

fn session() -> Promise {
    Promise::new(Consistency::Session, None)
}

fn strong() -> Promise {
    Promise::new(Consistency::Strong, None)
}

fn bounded(bound_us: u64) -> Promise {
    Promise::new(Consistency::Bounded, Some(bound_us))
}

#[track_caller]
fn check(history: &[Operation], expected: &[ViolationKind]) -> Checker {
    let checker = Checker::check(history, Limits::default());
    let found: Vec<_> = checker.examples().iter().map(|v| v.kind).collect();
    assert_eq!(found, expected, "{:?}", checker.examples());
    checker
}

#[test]
fn a_missed_own_write_is_found_and_explained() {
    let late = read(1, 1, Some(4), (2_000, 2_500), session());
    let checker = check(
        &[
            wrote(1, 4, 0, 10),
            wrote(1, 5, 100, 1_000),
            Operation::Read(late),
        ],
        &[ViolationKind::ReadYourWrites],
    );
    let violation = &checker.examples()[0];
    assert_eq!(
        violation.earlier.as_ref().map(|write| write.end_us),
        Some(1_000)
    );
    assert_eq!(
        violation.to_string(),
        "session 1 read version 4 of row 1 on db2 at 0.002000 s, 1.000 ms after its own write \
         of version 5 was acknowledged (0.001000 s): it did not see its own write"
    );
}

#[test]
fn a_row_that_is_missing_altogether_is_older_than_any_version() {
    let late = read(1, 1, None, (2_000, 2_500), session());
    let history = [wrote(1, 5, 100, 1_000), Operation::Read(late)];
    check(&history, &[ViolationKind::ReadYourWrites]);
}

#[test]
fn a_read_that_overlaps_the_write_may_miss_it_or_see_it() {
    let history = |seen| {
        let overlapping = read(1, 1, Some(seen), (900, 2_500), session());
        [
            wrote(1, 4, 0, 10),
            wrote(1, 5, 100, 1_000),
            Operation::Read(overlapping),
        ]
    };
    check(&history(4), &[]);
    check(&history(5), &[]);
}

#[test]
fn a_write_in_the_very_microsecond_of_the_read_is_not_required() {
    let same = read(1, 1, Some(4), (1_000, 1_000), session());
    check(
        &[
            wrote(1, 4, 0, 10),
            wrote(1, 5, 100, 1_000),
            Operation::Read(same),
        ],
        &[],
    );
}

#[test]
fn another_sessions_write_is_not_an_own_write() {
    let other = read(2, 1, Some(4), (2_000, 2_500), session());
    check(
        &[
            wrote(1, 4, 0, 10),
            wrote(1, 5, 100, 1_000),
            Operation::Read(other),
        ],
        &[],
    );
}

#[test]
fn a_write_in_doubt_may_be_seen_or_missed() {
    for seen in [4, 5] {
        let later = read(1, 1, Some(seen), (2_000, 2_500), session());
        let history = [
            wrote(1, 4, 0, 10),
            in_doubt(1, 5, 100, 1_000),
            Operation::Read(later),
        ];
        check(&history, &[]);
    }
}

#[test]
fn a_write_in_doubt_that_was_seen_once_stays_seen() {
    let first = read(1, 1, Some(5), (2_000, 2_500), session());
    let second = read(1, 1, Some(4), (2_600, 2_700), session());
    let history = [
        wrote(1, 4, 0, 10),
        in_doubt(1, 5, 100, 1_000),
        Operation::Read(first),
        Operation::Read(second),
    ];
    check(&history, &[ViolationKind::MonotonicReads]);
}

#[test]
fn a_row_that_goes_back_is_found() {
    let history = [
        wrote(1, 4, 0, 10),
        wrote(1, 5, 100, 1_000),
        Operation::Read(read(2, 1, Some(5), (2_000, 2_500), session())),
        Operation::Read(read(2, 1, Some(4), (2_501, 2_600), session())),
    ];
    check(&history, &[ViolationKind::MonotonicReads]);
}

#[test]
fn overlapping_reads_are_not_ordered_and_sessions_do_not_share_a_floor() {
    let history = |session_of_second, start_us| {
        [
            wrote(1, 4, 0, 10),
            wrote(1, 5, 100, 1_000),
            Operation::Read(read(2, 1, Some(5), (2_000, 2_500), session())),
            Operation::Read(read(
                session_of_second,
                1,
                Some(4),
                (start_us, 2_600),
                session(),
            )),
        ]
    };
    check(&history(2, 2_400), &[]);
    check(&history(3, 2_501), &[]);
}

#[test]
fn a_bound_is_counted_from_the_acknowledgement_to_the_start_of_the_read() {
    let history = |start_us| {
        let old = read(2, 1, Some(4), (start_us, start_us + 900), bounded(500));
        [
            wrote(1, 4, 0, 10),
            wrote(1, 5, 100, 1_000),
            Operation::Read(old),
        ]
    };
    check(&history(1_501), &[ViolationKind::BoundedStaleness]);
    check(&history(1_500), &[]);
    // A bound that reaches before the start of time requires nothing.
    check(&history(400), &[]);
}

#[test]
fn a_strong_read_must_see_what_anyone_had_acknowledged() {
    let history = |start_us, promise| {
        let other = read(2, 1, Some(4), (start_us, 3_000), promise);
        [
            wrote(1, 4, 0, 10),
            wrote(1, 5, 100, 1_000),
            Operation::Read(other),
        ]
    };
    check(&history(1_001, strong()), &[ViolationKind::Strong]);
    check(&history(1_000, strong()), &[]);
    check(&history(1_001, Promise::NONE), &[]);
}

#[test]
fn strong_reads_do_not_go_back_across_sessions() {
    // The write is still in flight: only the first read's answer proves it.
    let history = |start_us| {
        [
            wrote(1, 4, 0, 10),
            Operation::Read(read(2, 1, Some(5), (1_000, 1_100), strong())),
            Operation::Read(read(3, 1, Some(4), (start_us, 1_300), strong())),
            wrote(1, 5, 100, 9_000),
        ]
    };
    check(&history(1_101), &[ViolationKind::RealTime]);
    check(&history(1_050), &[]);
}

#[test]
fn a_version_that_nobody_began_is_found_even_without_a_promise() {
    let ghost = read(2, 1, Some(6), (2_000, 2_500), Promise::NONE);
    let after = read(2, 1, Some(5), (2_600, 2_700), session());
    let history = [
        wrote(1, 5, 100, 1_000),
        Operation::Read(ghost),
        Operation::Read(after),
        wrote(1, 6, 2_501, 4_000),
    ];
    // Found once: the ghost is no floor for what follows.
    check(&history, &[ViolationKind::NeverWritten]);
}

#[test]
fn a_write_in_flight_may_be_seen_before_its_acknowledgement() {
    let early = read(2, 1, Some(6), (2_000, 2_500), strong());
    check(&[Operation::Read(early), wrote(1, 6, 1_900, 4_000)], &[]);
}

#[test]
fn a_skipped_version_and_one_before_the_first_do_not_exist() {
    for ghost in [6, 4] {
        let ghost = read(2, 1, Some(ghost), (40, 50), Promise::NONE);
        let history = [
            wrote(1, 5, 0, 10),
            wrote(1, 7, 20, 30),
            Operation::Read(ghost),
        ];
        check(&history, &[ViolationKind::NeverWritten]);
    }
}

#[test]
fn degraded_reads_break_nothing_but_are_seen_to_be_stale() {
    let mut checker = Checker::new(Limits::default());
    checker.begin_write(1, 5);
    if let Operation::Write(write) = wrote(1, 5, 100, 1_000) {
        checker.end_write(&write);
    }
    let promise = Promise {
        strong: true,
        bound_us: Some(1),
        ..session()
    };
    let mut late = read(1, 1, None, (2_000, 2_500), promise);
    late.degraded = true;
    let verdict = checker.end_read(&late);
    assert!(verdict.missed_own_write && verdict.is_stale());
    assert_eq!((verdict.broken, checker.counts().len()), (vec![], 0));
}

#[test]
fn what_was_there_before_the_history_is_required_but_is_nobodys_own() {
    let mut checker = Checker::new(Limits::default());
    checker.seed(1, 40);
    let own = read(1, 1, Some(39), (50, 60), session());
    assert_eq!(checker.end_read(&own).broken, []);
    let other = read(2, 1, Some(39), (70, 80), strong());
    // Nobody had read 40 yet, so only the acknowledgement is missed.
    assert_eq!(checker.end_read(&other).broken, [ViolationKind::Strong]);
}

#[test]
fn an_hour_of_traffic_keeps_a_bounded_state_and_still_finds_old_violations() {
    let limits = Limits {
        points_max: 64,
        examples_max: 3,
        ..Limits::default()
    };
    let mut checker = Checker::new(limits);
    let mut broken = 0;
    for version in 1..=36_000_u64 {
        let at = version * 100_000;
        checker.begin_write(1, version);
        if let Operation::Write(write) = wrote(1, version, at, at + 10) {
            checker.end_write(&write);
        }
        // Far older than a bound of 20 s allows, at the thinned end of the line.
        let seen = version.saturating_sub(1_000).max(1);
        let stale = read(2, 1, Some(seen), (at + 20, at + 30), bounded(20_000_000));
        broken += u64::from(!checker.end_read(&stale).broken.is_empty());
    }
    assert!(broken > 34_000, "{broken}");
    assert_eq!(checker.examples().len(), 3);
    assert_eq!(checker.counts()[&ViolationKind::BoundedStaleness], broken);
    let state = &checker.keys[&1];
    assert!(state.acknowledged.len() <= 65 && state.begun.len() <= super::BEGUN_MAX);
}
