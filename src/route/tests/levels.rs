//! The six levels over fresh, lagging and lost servers.

use super::*;

fn steps(lab: &Lab, ask: impl Fn(Consistency) -> Ask) -> Vec<String> {
    Consistency::ALL
        .into_iter()
        .map(|level| {
            let mut ask = ask(level);
            ask.policy.max_staleness = (level == Consistency::Bounded).then_some(10 * MS);
            step(lab, &ask, 1000)
        })
        .collect()
}

#[test]
fn every_level_with_one_replica_fresh() {
    let lab = one_behind();
    let wrote_9 = steps(&lab, |level| with_session(level, "A:9"));
    for level in [1, 3, 4] {
        assert_eq!(wrote_9[level], "1 replica_fresh");
    }
    assert!(wrote_9[0].ends_with("replica_fresh") && wrote_9[2].ends_with("replica_fresh"));
    assert_eq!(wrote_9[5], "fence");
}

#[test]
fn every_level_with_all_replicas_behind() {
    let lab = all_behind();
    let steps = steps(&lab, |level| with_session(level, "A:9"));
    assert!(
        steps[0].ends_with("replica_fresh"),
        "eventual takes anything"
    );
    assert_eq!(
        steps[1], "fence",
        "bounded: maybe the source was asked too long ago"
    );
    assert!(
        steps[2].ends_with("replica_fresh"),
        "monotonic: no earlier read"
    );
    assert_eq!(steps[3..], ["wait 1 2", "wait 1 2", "fence"]);
}

#[test]
fn every_level_with_all_replicas_lost_goes_to_the_source() {
    let mut lab = one_behind();
    lab.lose(1, 997);
    lab.lose(2, 997);
    let steps = steps(&lab, |level| with_session(level, "A:9"));
    assert_eq!(steps[..5], vec!["0 source_no_replica"; 5]);
    assert_eq!(steps[5], "fence", "strong: is it the source still?");
}

/// Invariant 2: nothing known, no source: a clear error, never a guess.
#[test]
fn invariant_2_without_a_source_there_is_an_error_after_the_wait() {
    let lab = Lab::unknown(2);
    for level in Consistency::ALL {
        let ask = with_session(level, "");
        assert_eq!(step(&lab, &ask, 1000), "wait for the fleet", "{level:?}");
        assert!(
            step(&lab, &ask, 1050).starts_with("fail: no source"),
            "{level:?}"
        );
    }
    let mut lab = one_behind();
    for server in 0..3 {
        lab.lose(server, 997);
    }
    let gone = step(&lab, &ask(Consistency::Session), 1050);
    assert!(gone.starts_with("fail: "), "{gone}");
}

#[test]
fn replicas_still_serve_what_needs_no_source() {
    let mut lab = one_behind();
    lab.lose(0, 997);
    assert_eq!(
        step(&lab, &with_session(Consistency::Session, "A:9"), 1000),
        "1 replica_fresh"
    );
    assert_eq!(
        step(&lab, &ask(Consistency::Strong), 1000),
        "wait for the fleet"
    );
}

/// Invariant 1: only the server's own report counts; the largest number is no report.
#[test]
fn invariant_1_and_3_a_gap_is_not_served() {
    let mut lab = Lab::running(2, "A:1-5");
    lab.executed(0, "A:1-9", 995);
    lab.executed(1, "A:1-6:8-9", 996);
    assert_eq!(
        step(
            &lab,
            &with_session(Consistency::ReadYourWrites, "A:8"),
            1000
        ),
        "1 replica_fresh"
    );
    assert_eq!(
        step(
            &lab,
            &with_session(Consistency::ReadYourWrites, "A:7"),
            1000
        ),
        "wait 1"
    );
    assert_eq!(
        step(
            &lab,
            &with_session(Consistency::ReadYourWrites, "A:1-9"),
            1000
        ),
        "wait 1"
    );
}

#[test]
fn a_session_and_a_token_add_up() {
    let lab = all_behind();
    for (wrote, token, expected) in [
        ("A:5", "A:4", "replica_fresh"),
        ("A:5", "A:9", "wait 1 2"),
        ("A:9", "A:4", "wait 1 2"),
        ("", "A:9", "wait 1 2"),
    ] {
        let mut ask = with_session(Consistency::Session, wrote);
        ask.token = Requirement::of(set(token));
        assert!(
            step(&lab, &ask, 1000).ends_with(expected),
            "{wrote} and {token}"
        );
    }
    let mut ask = ask(Consistency::Eventual);
    ask.token = Requirement::of(set("A:9"));
    assert!(
        step(&lab, &ask, 1000).ends_with("replica_fresh"),
        "eventual heeds no token"
    );
}

#[test]
fn strong_covers_what_the_source_had_and_what_anybody_may_have_been_shown() {
    let mut lab = one_behind();
    let mut ask = ask(Consistency::Strong);
    ask.fence = fence("", "A:1-9");
    assert_eq!(step(&lab, &ask, 1000), "1 replica_fresh");
    ask.fence = fence("A:10", "A:1-9");
    assert_eq!(step(&lab, &ask, 1000), "wait 1 2", "10 may show elsewhere");
    assert_eq!(
        step(&lab, &ask, 1050),
        "wait 0 hard",
        "and the source does not list it yet"
    );
    lab.executed(0, "A:1-10", 1051);
    assert_eq!(step(&lab, &ask, 1052), "0 source_chosen");
}

#[test]
fn bounded_staleness_is_a_bound_on_unknowns_too() {
    let mut ask = ask(Consistency::Bounded);
    ask.policy.max_staleness = Some(10 * MS);
    let lab = one_behind();
    assert_eq!(step(&lab, &ask, 1000), "1 replica_fresh");
    assert_eq!(
        step(&lab, &ask, 1005),
        "1 replica_fresh",
        "exactly the bound"
    );
    assert_eq!(step(&lab, &ask, 1006), "fence");
    ask.fence = fence("", "A:1-9");
    assert_eq!(step(&lab, &ask, 1006), "wait 2");
    let mut lab = Lab::running(2, "A:1-5");
    lab.executed(0, "A:1-3", 999);
    ask.fence = None;
    lab.executed(1, "B:1", 999);
    assert_eq!(
        step(&lab, &ask, 1000),
        "fence",
        "unknown staleness is too stale"
    );
}

#[test]
fn no_session_is_served_below_the_floor_or_staler_than_its_time_to_live() {
    let mut lab = one_behind();
    lab.lose(2, 997);
    lab.fleet.raise_floor(at(998), None);
    lab.executed(2, "A:1-6", 999);
    lab.polled(2, crate::fleet::testing::replica_of(0), 999);
    lab.lose(1, 999);
    let in_session = |level| step(&lab, &with_session(level, ""), 1000);
    assert_eq!(in_session(Consistency::Session), "wait 2");
    assert_eq!(in_session(Consistency::Monotonic), "wait 2");
    assert_eq!(in_session(Consistency::ReadYourWrites), "wait 2");
    assert_eq!(in_session(Consistency::Eventual), "2 replica_fresh");
    assert_eq!(
        step(&lab, &ask(Consistency::Session), 1000),
        "2 replica_fresh",
        "no session"
    );

    let lab = all_behind();
    let mut stale = with_session(Consistency::Session, "");
    stale.session_staleness_max = 999 * MS;
    assert_eq!(step(&lab, &stale, 1000), "0 source_chosen");
    stale.session_staleness_max = 1000 * MS;
    assert!(step(&lab, &stale, 1000).ends_with("replica_fresh"));
}

#[test]
fn a_dropped_session_reads_from_the_source_only() {
    let lab = one_behind();
    let mut ask = with_session(Consistency::ReadYourWrites, "");
    session(&mut ask).dropped = true;
    assert_eq!(step(&lab, &ask, 1000), "0 source_session_dropped");
    let mut ask = with_session(Consistency::Session, "");
    session(&mut ask).dropped = true;
    assert_eq!(
        step(&lab, &ask, 1000),
        "fence",
        "its reads may have shown anything"
    );
    ask.fence = fence("A:10", "A:1-9");
    assert_eq!(step(&lab, &ask, 1000), "wait 0 hard");
    ask.fence = fence("", "A:1-9");
    assert_eq!(step(&lab, &ask, 1000), "0 source_session_dropped");
    ask.policy.consistency = Consistency::Eventual;
    assert!(step(&lab, &ask, 1000).ends_with("replica_fresh"));
}

#[test]
fn explain_names_what_keeps_each_server_from_serving() {
    let mut lab = one_behind();
    let ask = with_session(Consistency::Session, "A:9");
    let explained = |lab: &Lab, ask: &Ask| -> Vec<_> {
        let named = |candidate: Candidate| (candidate.fit.name(), candidate.missing);
        explain(&lab.view(), ask, at(1000))
            .into_iter()
            .map(named)
            .collect()
    };
    assert_eq!(
        explained(&lab, &ask),
        [("fits", Some(0)), ("fits", Some(0)), ("behind", Some(1))]
    );
    lab.lose(2, 999);
    assert_eq!(explained(&lab, &ask)[2], ("no_evidence", None));
    let ask = with_reads(&lab, 0, None);
    assert_eq!(explained(&lab, &ask)[1].0, "earlier_reads_unknown");
}
