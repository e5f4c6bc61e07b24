//! An answer is marked as degraded exactly when the promise is not kept.

use super::*;
use crate::fleet::Life;

#[test]
fn a_degraded_answer_is_no_position_for_later_reads() {
    let lab = all_behind();
    let mut ask = with_session(Consistency::Session, "A:9");
    ask.policy.on_timeout = OnTimeout::Stale;
    let Step::Answer(decision) = decide(&lab.view(), &ask, at(1050)) else {
        panic!("no answer");
    };
    assert!(decision.degraded);
    assert_eq!(decision.life, Life::ANY);
}

#[test]
fn an_answer_that_keeps_the_promise_is_not_degraded_whatever_was_allowed() {
    let lab = one_behind();
    for on_timeout in [OnTimeout::Source, OnTimeout::Stale, OnTimeout::Error] {
        let mut ask = with_session(Consistency::Session, "A:9");
        ask.policy.on_timeout = on_timeout;
        let Step::Answer(decision) = decide(&lab.view(), &ask, at(1050)) else {
            panic!("no answer");
        };
        assert!(!decision.degraded);
        assert_eq!(decision.life, lab.server(1).life);
    }
}

#[test]
fn a_source_that_lags_behind_what_was_shown_is_degraded_past_the_hard_deadline() {
    let lab = all_behind();
    let mut ask = with_reads(&lab, 1, None);
    session(&mut ask).requirement = Requirement::of(set("A:9"));
    ask.located
        .push((lab.server(1).life, Arc::new(set("A:1-10"))));
    assert_eq!(step(&lab, &ask, 1099), "wait 0 hard");
    assert_eq!(step(&lab, &ask, 1100), "0 source_chosen degraded");
    ask.located.clear();
    assert_eq!(
        step(&lab, &ask, 1100),
        "0 source_chosen degraded",
        "not known is not kept"
    );
    ask.policy.on_timeout = OnTimeout::Error;
    assert!(
        step(&lab, &ask, 1100).starts_with("fail"),
        "the caller wants an error instead"
    );
}

#[test]
fn a_strong_read_of_an_unconfirmed_source_is_degraded() {
    let lab = one_behind();
    assert_eq!(
        step(&lab, &ask(Consistency::Strong), 1100),
        "0 source_chosen degraded"
    );
}

#[test]
fn staleness_is_told_as_far_as_it_is_known() {
    let lab = all_behind();
    let decided = |ms, ask: &Ask| match decide(&lab.view(), ask, at(ms)) {
        Step::Answer(decision) => decision.staleness,
        other => panic!("{other:?}"),
    };
    assert_eq!(decided(1000, &ask(Consistency::Eventual)), Some(1000 * MS));
    assert_eq!(
        decided(1050, &with_session(Consistency::Session, "A:9")),
        Some(Duration::ZERO)
    );
}
