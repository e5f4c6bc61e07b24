//! Monotonic reads: a session never goes back behind what it was shown.

use super::*;
use crate::fleet::Life;

fn locate(ask: &mut Ask, lab: &Lab, server: usize, shown: &str) {
    ask.located
        .push((lab.server(server).life, Arc::new(set(shown))));
}

#[test]
fn a_session_stays_on_its_server_while_that_fits() {
    let lab = Lab::running(3, "A:1-5");
    for last in [1, 2] {
        for seed in 0..8 {
            let mut ask = with_reads(&lab, last, None);
            ask.seed = seed << 32 | seed;
            assert_eq!(step(&lab, &ask, 1000), format!("{last} replica_fresh"));
        }
    }
}

#[test]
fn moving_needs_to_know_what_the_last_server_showed() {
    let mut lab = one_behind();
    let mut ask = with_reads(&lab, 2, None);
    session(&mut ask).requirement = Requirement::of(set("A:9"));
    assert_eq!(step(&lab, &ask, 1000), "locate 2");
    let mut covered = ask.clone();
    locate(&mut covered, &lab, 2, "A:1-6");
    assert_eq!(step(&lab, &covered, 1000), "1 replica_fresh");
    locate(&mut ask, &lab, 2, "A:1-10");
    assert_eq!(step(&lab, &ask, 1000), "wait 1 2");
    lab.executed(1, "A:1-10", 1001);
    assert_eq!(step(&lab, &ask, 1002), "1 replica_fresh");
}

#[test]
fn a_read_from_the_source_is_a_position_like_any_other() {
    let lab = one_behind();
    let mut ask = with_reads(&lab, 0, None);
    assert_eq!(step(&lab, &ask, 1000), "locate 0");
    locate(&mut ask, &lab, 0, "A:1-10");
    assert_eq!(step(&lab, &ask, 1000), "wait 1 2");
    assert_eq!(
        step(&lab, &ask, 1050),
        "0 source_chosen",
        "it goes on there"
    );
}

#[test]
fn the_server_before_last_counts_too() {
    let lab = Lab::running(3, "A:1-5");
    let mut ask = with_reads(&lab, 1, Some(2));
    assert_eq!(step(&lab, &ask, 1000), "locate 2");
    locate(&mut ask, &lab, 2, "A:1-5");
    assert_eq!(step(&lab, &ask, 1000), "1 replica_fresh");
    ask.located.clear();
    locate(&mut ask, &lab, 2, "A:1-6");
    assert_eq!(
        step(&lab, &ask, 1000),
        "locate 1",
        "1 misses 6; may 2 serve?"
    );
}

#[test]
fn a_server_whose_life_has_ended_is_bounded_by_the_source() {
    let mut lab = one_behind();
    let mut ask = with_reads(&lab, 2, None);
    lab.executed(2, "A:1-2", 997);
    assert_eq!(step(&lab, &ask, 1000), "fence");
    ask.fence = fence("A:10", "A:1-9");
    assert_eq!(step(&lab, &ask, 1000), "wait 1", "10 may have shown there");
    ask.fence = fence("", "A:1-9");
    assert_eq!(step(&lab, &ask, 1000), "1 replica_fresh");
}

#[test]
fn a_lost_server_is_bounded_by_the_source_and_without_one_the_read_waits() {
    let mut lab = one_behind();
    let ask = with_reads(&lab, 2, None);
    lab.lose(2, 997);
    assert_eq!(step(&lab, &ask, 1000), "fence");
    lab.lose(0, 998);
    assert_eq!(step(&lab, &ask, 1000), "wait for the fleet");
}

#[test]
fn a_crowd_of_servers_is_bounded_by_the_source() {
    let lab = one_behind();
    let mut ask = with_reads(&lab, 1, None);
    session(&mut ask).seen.crowded = true;
    assert_eq!(step(&lab, &ask, 1000), "fence");
    ask.fence = fence("A:10", "A:1-9");
    assert_eq!(
        step(&lab, &ask, 1000),
        "wait 1",
        "even the last server must cover it"
    );
    ask.fence = fence("", "A:1-9");
    assert_eq!(step(&lab, &ask, 1000), "1 replica_fresh");
}

#[test]
fn the_source_too_must_cover_what_a_replica_has_shown() {
    let mut lab = all_behind();
    let mut ask = with_reads(&lab, 1, None);
    session(&mut ask).requirement = Requirement::of(set("A:9"));
    ask.deadline = at(1000);
    assert_eq!(step(&lab, &ask, 1000), "locate 1");
    locate(&mut ask, &lab, 1, "A:1-10");
    assert_eq!(step(&lab, &ask, 1000), "wait 0 hard");
    lab.executed(0, "A:1-10", 1001);
    assert_eq!(step(&lab, &ask, 1002), "0 source_chosen");
}

#[test]
fn after_a_degraded_read_only_the_source_s_state_is_a_bound() {
    let lab = one_behind();
    let mut ask = with_reads(&lab, 1, None);
    session(&mut ask).seen.last = Some(Life::ANY);
    assert_eq!(step(&lab, &ask, 1000), "fence");
    ask.fence = fence("", "A:1-9");
    assert_eq!(step(&lab, &ask, 1000), "1 replica_fresh");
}

#[test]
fn read_your_writes_alone_does_not_ask_where_the_session_read() {
    let lab = one_behind();
    let mut ask = with_reads(&lab, 0, Some(2));
    ask.policy.consistency = Consistency::ReadYourWrites;
    assert!(step(&lab, &ask, 1000).ends_with("replica_fresh"));
}
