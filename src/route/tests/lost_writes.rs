//! Invariant 5: what the source can never have is reported, not waited for.

use super::*;

#[test]
fn invariant_5_a_lost_write_is_reported_and_not_waited_for() {
    for wrote in ["A:12", "A:1-12", "A:5:12", "F:1"] {
        let lab = one_behind();
        let mut ask = with_session(Consistency::Session, wrote);
        assert_eq!(
            step(&lab, &ask, 1000),
            "wait 1 2 and check the source",
            "{wrote}"
        );
        ask.fence = fence("", "A:1-9");
        let Step::Answer(decision) = decide(&lab.view(), &ask, at(1000)) else {
            panic!("{wrote} is waited for");
        };
        let lost = if wrote == "A:1-12" { "A:10-12" } else { wrote };
        let lost = set(lost).subtract(&set("A:1-9"));
        assert_eq!(decision.lost, Some(lost), "{wrote}");
        assert_eq!(
            (decision.reason, decision.degraded),
            (Reason::SourceWriteLost, true)
        );
    }
}

#[test]
fn a_lost_token_is_reported_too() {
    let lab = one_behind();
    let mut ask = ask(Consistency::Session);
    ask.token = Requirement::of(set("A:12"));
    ask.fence = fence("", "A:1-9");
    assert_eq!(step(&lab, &ask, 1000), "0 source_write_lost degraded");
}

#[test]
fn a_write_that_is_there_is_not_lost() {
    let lab = all_behind();
    let mut ask = with_session(Consistency::Session, "A:9");
    ask.fence = fence("", "A:1-9");
    assert_eq!(step(&lab, &ask, 1000), "wait 1 2");
}

#[test]
fn before_the_source_serves_it_is_asked_whether_it_has_the_write() {
    let lab = all_behind();
    let mut ask = with_session(Consistency::Session, "A:12");
    ask.deadline = at(1000);
    assert_eq!(step(&lab, &ask, 1000), "fence");
    ask.fence = fence("", "A:1-9");
    assert_eq!(step(&lab, &ask, 1000), "0 source_write_lost degraded");
}

#[test]
fn a_source_that_is_not_known_to_have_the_write_keeps_no_promise() {
    let lab = all_behind();
    let ask = with_session(Consistency::Session, "A:12");
    assert_eq!(
        step(&lab, &ask, 1100),
        "0 source_chosen degraded",
        "it did not answer in time"
    );
    // The fence is of a source that has been replaced since.
    let mut ask = with_session(Consistency::Session, "A:12");
    ask.fence = fence("", "A:1-12");
    assert_eq!(step(&lab, &ask, 1060), "wait 0 hard");
    assert_eq!(step(&lab, &ask, 1100), "0 source_chosen degraded");
}
