//! What is counted and shown. Unknown is never zero.

use crate::fleet::Status;
use crate::fleet::testing::{Lab, alone, channel, ix, replica_of, set, sid};
use crate::gtid::Gtid;
use crate::requirement::Requirement;

fn behind(lab: &Lab, server: usize) -> Option<u64> {
    let view = lab.view();
    view.transactions_behind(view.server(ix(server)))
}

fn received(lab: &Lab, server: usize) -> Option<u64> {
    let view = lab.view();
    view.received_not_executed(view.server(ix(server)))
}

#[test]
fn transactions_behind_counts_what_is_missing_gaps_included() {
    let mut lab = Lab::running(2, "A:1-5");
    assert_eq!(behind(&lab, 1), Some(0));
    lab.executed(0, "A:1-12,B:1", 10);
    assert_eq!(behind(&lab, 1), Some(8));
    lab.executed(1, "A:1-5:9-12", 11);
    assert_eq!(behind(&lab, 1), Some(4));
    assert_eq!(behind(&lab, 0), Some(0));
}

#[test]
fn transactions_behind_is_unknown_without_either_side() {
    let mut lab = Lab::running(3, "A:1-5");
    lab.lose(1, 10);
    assert_eq!((behind(&lab, 1), behind(&lab, 2)), (None, Some(0)));
    lab.lose(0, 11);
    assert_eq!(behind(&lab, 2), None);
    let view = lab.view();
    assert!(view.errant(view.server(ix(2))).is_none());
}

#[test]
fn received_not_executed_needs_every_channel_to_tell() {
    let mut lab = Lab::running(2, "A:1-5");
    assert_eq!(received(&lab, 1), None, "the channel did not say");
    let with = |sets: &[Option<&str>]| Status {
        channels: sets
            .iter()
            .map(|text| {
                let mut one = channel(0, true);
                one.received = text.map(set);
                one
            })
            .collect(),
        ..alone(true)
    };
    lab.polled(1, with(&[Some("A:3-9")]), 10);
    assert_eq!(received(&lab, 1), Some(4));
    lab.polled(1, with(&[Some("A:3-9"), Some("B:1-2")]), 11);
    assert_eq!(received(&lab, 1), Some(6));
    lab.polled(1, with(&[Some("A:3-9"), None]), 12);
    assert_eq!(received(&lab, 1), None);
    lab.lose(1, 13);
    assert_eq!(received(&lab, 1), None);
}

#[test]
fn errant_is_what_the_source_never_had() {
    let mut lab = Lab::running(2, "A:1-5");
    lab.executed(1, "A:1-5,B:1-2", 10);
    let view = lab.view();
    assert_eq!(view.errant(view.server(ix(1))), Some(set("B:1-2")));
    assert_eq!(view.errant(view.server(ix(0))), Some(set("")));
}

/// Invariant 3: a set is compared as a set, never by its largest number.
#[test]
fn invariant_3_meets_heeds_gaps() {
    let mut lab = Lab::running(2, "A:1-5");
    lab.executed(0, "A:1-9,B:1-4", 10);
    lab.executed(1, "A:1-5:7-9,B:2-4", 11);
    let view = lab.view();
    assert_eq!(view.main_sid, Some(sid(0)));
    let one = |server, gno| {
        Requirement::One(Gtid {
            sid: sid(server),
            gno,
        })
    };
    let up_to = |server, gno| Requirement::UpTo {
        sid: sid(server),
        gno,
    };
    let cases = [
        (Requirement::Nothing, true),
        (one(0, 5), true),
        (one(0, 6), false),
        (one(0, 9), true),
        (one(1, 1), false),
        (one(1, 4), true),
        (up_to(0, 5), true),
        (up_to(0, 9), false),
        (up_to(1, 4), false),
        (Requirement::of(set("A:7-9,B:2")), true),
        (Requirement::of(set("A:5-7")), false),
    ];
    for (need, met) in cases {
        assert_eq!(view.meets(view.server(ix(1)), &need), met, "{need:?}");
    }
}

#[test]
fn a_server_without_evidence_meets_no_requirement() {
    let mut lab = Lab::running(2, "A:1-5");
    lab.lose(1, 10);
    let view = lab.view();
    for need in ["A:1", "A:1-5", "A:1:3"] {
        assert!(
            !view.meets(view.server(ix(1)), &Requirement::of(set(need))),
            "{need}"
        );
    }
}

#[test]
fn the_main_sid_follows_what_grows() {
    let mut lab = Lab::running(2, "A:1-5,B:1-2");
    assert_eq!(lab.view().main_sid, Some(sid(0)));
    lab.executed(0, "A:1-5,B:1-3", 10);
    assert_eq!(lab.view().main_sid, Some(sid(1)));
    assert_eq!(lab.server(1).watermark, 2);
}

#[test]
fn a_replica_with_a_stopped_applier_is_not_applying() {
    let mut lab = Lab::running(2, "A:1-5");
    assert!(lab.server(1).applying);
    let mut status = replica_of(0);
    status.channels[0].applier_running = false;
    lab.polled(1, status, 10);
    assert!(!lab.server(1).applying);
    lab.lose(1, 11);
    assert!(!lab.server(1).applying, "not known");
}
