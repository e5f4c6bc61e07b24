//! When a report counts as evidence, and when it stops to.

use crate::fleet::testing::{Lab, alone, at, fault, replica_of, sample, set, uuid};
use crate::fleet::{Fault, Notice, Role, Sample, ServerIx};

#[test]
fn nothing_is_known_before_the_first_report() {
    let mut lab = Lab::unknown(2);
    assert!(!lab.server(1).usable);
    assert_eq!(lab.server(1).fault(), Some(&Fault::NotConnectedYet));
    lab.identify(1, 1, 0);
    assert_eq!(
        lab.evidence(1),
        None,
        "who it is says nothing of what it has"
    );
}

#[test]
fn a_report_is_evidence() {
    let mut lab = Lab::running(2, "A:1-5");
    assert!(lab.executed(1, "A:1-7", 10));
    assert_eq!(lab.evidence(1), Some(set("A:1-7")));
    assert_eq!(lab.server(1).evidence_asked(), Some(at(10)));
    assert!(lab.server(1).usable);
}

#[test]
fn an_overtaken_report_of_another_connection_is_ignored() {
    let mut lab = Lab::running(2, "A:1-5");
    lab.sampled(1, sample(1, "A:1-9", 20, 21));
    assert!(!lab.sampled(1, sample(1, "A:1-6", 10, 15)));
    assert_eq!(lab.evidence(1), Some(set("A:1-9")));
    assert_eq!(lab.server(1).epoch(), 1);
}

#[test]
fn an_overtaken_report_of_the_same_set_does_not_make_evidence_older() {
    let mut lab = Lab::running(2, "A:1-5");
    lab.sampled(1, sample(1, "A:1-9", 20, 21));
    assert!(!lab.sampled(1, sample(1, "A:1-9", 10, 15)));
    assert_eq!(lab.server(1).evidence_asked(), Some(at(20)));
}

#[test]
fn of_two_questions_under_way_together_the_larger_answer_counts() {
    for (first, second) in [("A:1-9", "A:1-6"), ("A:1-6", "A:1-9")] {
        let mut lab = Lab::running(2, "A:1-5");
        lab.sampled(1, sample(1, first, 10, 30));
        lab.sampled(1, sample(1, second, 20, 35));
        assert_eq!(lab.evidence(1), Some(set("A:1-9")), "{first} then {second}");
        assert_eq!(lab.server(1).epoch(), 1, "{first} then {second}");
    }
}

#[test]
fn a_long_wait_that_answers_late_with_more_counts() {
    let mut lab = Lab::running(2, "A:1-5");
    lab.sampled(1, sample(1, "A:1-6", 20, 21));
    assert!(
        lab.sampled(1, sample(1, "A:1-8", 10, 40)),
        "a barrier asked before, answered after"
    );
    assert_eq!(lab.evidence(1), Some(set("A:1-8")));
}

/// Invariant 2: unknown is not fresh.
#[test]
fn invariant_2_a_lost_connection_leaves_no_evidence() {
    let mut lab = Lab::running(2, "A:1-5");
    lab.fleet.take_notices();
    assert!(lab.lose(1, 10));
    let server = lab.server(1);
    assert!(!server.usable && server.executed().is_none() && !server.covers_floor);
    assert_eq!((server.watermark, server.role), (0, Role::Unknown));
    assert_eq!((server.fresh_as_of, server.missing_since), (None, None));
    assert_eq!((server.status(), server.evidence_asked()), (None, None));
    assert_eq!(server.fault(), Some(&fault()));
    assert_eq!(
        lab.fleet.take_notices(),
        [Notice::Lost(ServerIx(1), fault())]
    );
}

#[test]
fn the_same_loss_again_is_no_news_but_another_reason_is() {
    let mut lab = Lab::running(2, "A:1-5");
    lab.lose(1, 10);
    assert!(!lab.lose(1, 11));
    assert!(lab.apply(1, crate::fleet::Event::Lost(Fault::Timeout(5)), 12));
}

#[test]
fn a_report_asked_for_before_a_loss_does_not_restore_evidence() {
    let mut lab = Lab::running(2, "A:1-5");
    lab.lose(1, 10);
    assert!(!lab.sampled(1, sample(1, "A:1-9", 9, 12)));
    assert!(!lab.server(1).usable);
    assert!(!lab.poll_asked(1, replica_of(0), 9, 12), "nor does a poll");
    assert_eq!(lab.server(1).status(), None);
}

#[test]
fn a_server_that_comes_back_with_all_it_had_is_in_the_same_epoch() {
    let mut lab = Lab::running(2, "A:1-5");
    let life = lab.server(1).life;
    lab.lose(1, 10);
    lab.identify(1, 1, 11);
    assert!(lab.executed(1, "A:1-5", 12));
    assert!(!lab.server(1).usable, "its role is not known again yet");
    lab.polled(1, replica_of(0), 13);
    let server = lab.server(1);
    assert!(server.usable && server.fault().is_none());
    assert_eq!((server.life, server.epoch()), (life, 1));
    assert!(
        lab.fleet
            .take_notices()
            .contains(&Notice::Usable(ServerIx(1)))
    );
}

#[test]
fn what_an_old_connection_to_another_server_says_is_ignored() {
    let mut lab = Lab::running(2, "A:1-5");
    lab.identify(1, 3, 10);
    let of_old = Sample {
        server: uuid(1),
        ..sample(1, "A:1-9", 11, 12)
    };
    assert!(
        !lab.sampled(1, of_old),
        "the address has moved on to another server"
    );
    assert_eq!(lab.evidence(1), None);
    assert!(!lab.polled(1, replica_of(0), 13));
}

#[test]
fn a_report_of_nobody_known_is_ignored() {
    let mut lab = Lab::unknown(1);
    assert!(!lab.executed(0, "A:1-5", 1));
    assert!(!lab.polled(0, alone(false), 1));
}

#[test]
fn an_ignored_report_does_not_change_roles() {
    let mut lab = Lab::running(2, "A:1-5");
    lab.sampled(0, sample(0, "A:1-9", 20, 21));
    let overtaken = Sample {
        read_only: Some(true),
        ..sample(0, "A:1-6", 10, 15)
    };
    assert!(!lab.sampled(0, overtaken));
    assert_eq!(lab.view().source, Ok(ServerIx(0)));
    assert_eq!(
        lab.server(0).status().map(|status| status.read_only),
        Some(false)
    );
}

#[test]
fn an_answer_that_was_under_way_does_not_make_a_demoted_source_the_source_again() {
    let told = |read_only, asked, answered| Sample {
        read_only: Some(read_only),
        ..sample(0, "A:1-5", asked, answered)
    };
    let mut lab = Lab::running(2, "A:1-5");
    lab.sampled(0, told(true, 20, 21));
    assert!(lab.view().source.is_err());
    lab.sampled(0, told(false, 15, 25));
    assert!(lab.view().source.is_err(), "a sample that was under way");
    lab.poll_asked(0, alone(false), 18, 26);
    assert!(lab.view().source.is_err(), "a poll that was under way");
    lab.sampled(0, told(false, 22, 27));
    assert_eq!(lab.view().source, Ok(ServerIx(0)), "writable again");
}
