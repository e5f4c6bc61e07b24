//! How long, on whom, and what after. Invariant 6: no wait without an end.

use super::*;

fn with_policy(on_timeout: OnTimeout, wrote: &str) -> Ask {
    let mut ask = with_session(Consistency::Session, wrote);
    ask.policy.on_timeout = on_timeout;
    ask
}

#[test]
fn past_the_deadline_the_caller_s_wish_counts() {
    let lab = all_behind();
    for (on_timeout, expected) in [
        (OnTimeout::Source, "0 source_timeout"),
        (OnTimeout::Stale, "1 stale_allowed degraded"),
        (
            OnTimeout::Error,
            "fail: no replica met the requirement in time",
        ),
    ] {
        let mut ask = with_policy(on_timeout, "A:9");
        assert_eq!(step(&lab, &ask, 1000), "wait 1 2", "{on_timeout:?}");
        ask.waited = true;
        assert_eq!(step(&lab, &ask, 1050), expected, "{on_timeout:?}");
    }
}

#[test]
fn a_replica_that_caught_up_is_named_so() {
    let mut lab = all_behind();
    let mut ask = with_policy(OnTimeout::Source, "A:9");
    ask.waited = true;
    lab.executed(2, "A:1-9", 1010);
    assert_eq!(step(&lab, &ask, 1011), "2 replica_caught_up");
}

#[test]
fn a_replica_behind_for_longer_than_the_wait_is_not_waited_for() {
    let mut lab = Lab::running(3, "A:1-5");
    lab.executed(0, "A:1-9", 940);
    assert_eq!(
        step(&lab, &with_policy(OnTimeout::Source, "A:9"), 1000),
        "0 source_chosen"
    );
    assert_eq!(
        step(&lab, &with_policy(OnTimeout::Stale, "A:9"), 1000),
        "wait 1 2"
    );
    lab.executed(1, "A:1-8", 999);
    lab.executed(0, "A:1-10", 999);
    assert_eq!(
        step(&lab, &with_policy(OnTimeout::Source, "A:9"), 999),
        "0 source_chosen"
    );
}

#[test]
fn a_replica_whose_applier_stopped_is_not_waited_for() {
    let mut lab = all_behind();
    for server in [1, 2] {
        let mut status = crate::fleet::testing::replica_of(0);
        status.channels[0].applier_running = false;
        lab.polled(server, status, 996);
    }
    assert_eq!(
        step(&lab, &with_policy(OnTimeout::Source, "A:9"), 1000),
        "0 source_chosen"
    );
}

#[test]
fn a_session_waits_alone_for_its_last_server_while_that_keeps_up() {
    let mut lab = Lab::running(3, "A:1-5");
    lab.executed(0, "A:1-9", 997);
    let mut ask = with_reads(&lab, 2, None);
    session(&mut ask).requirement = Requirement::of(set("A:9"));
    assert_eq!(step(&lab, &ask, 1000), "wait 2");
    assert_eq!(
        step(&lab, &ask, 1003),
        "locate 2",
        "no longer: others may be faster"
    );
}

/// Invariant 6: each step past the hard deadline is an answer or an error.
#[test]
fn invariant_6_no_step_waits_past_the_hard_deadline() {
    let mut labs = vec![one_behind(), all_behind(), Lab::unknown(3)];
    for lost in [0, 1, 2] {
        let mut lab = all_behind();
        lab.lose(lost, 996);
        labs.push(lab);
    }
    for lab in &labs {
        for level in Consistency::ALL {
            for on_timeout in [OnTimeout::Source, OnTimeout::Stale, OnTimeout::Error] {
                for (last, before, crowded) in
                    [(0, None, false), (1, Some(2), false), (2, Some(0), true)]
                {
                    let mut ask = with_reads(lab, last, before);
                    ask.policy.consistency = level;
                    ask.policy.on_timeout = on_timeout;
                    session(&mut ask).requirement = Requirement::of(set("A:9"));
                    session(&mut ask).seen.crowded = crowded;
                    let end = decide(&lab.view(), &ask, at(1100));
                    assert!(
                        matches!(end, Step::Answer(_) | Step::Fail(_)),
                        "{level:?} {on_timeout:?}: {end:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_strong_read_waits_for_a_source_to_be_there_before_it_gives_up() {
    let mut lab = one_behind();
    lab.lose(0, 997);
    let mut ask = ask(Consistency::Strong);
    for on_timeout in [OnTimeout::Source, OnTimeout::Error, OnTimeout::Stale] {
        ask.policy.on_timeout = on_timeout;
        assert_eq!(step(&lab, &ask, 1049), "wait for the fleet");
    }
    assert_eq!(step(&lab, &ask, 1050), "1 stale_allowed degraded");
}
