//! The floor under all sessions: never above what a usable server has.

use std::time::Duration;

use crate::fleet::testing::{Lab, alone, at, replica_of, set};

fn floor(lab: &Lab) -> String {
    lab.fleet.floor().set.to_string()
}

fn text(spelled: &str) -> String {
    set(spelled).to_string()
}

#[test]
fn the_floor_starts_as_what_the_source_has_at_first_sight() {
    let mut lab = Lab::unknown(2);
    assert_eq!(floor(&lab), "");
    assert!(!lab.fleet.raise_floor(at(1), None), "no source yet");
    lab = lab.start(2, "A:1-5");
    assert_eq!(floor(&lab), text("A:1-5"));
    assert_eq!(
        lab.fleet.floor().as_of,
        None,
        "reads of an earlier run are not dated"
    );
    lab.executed(0, "A:1-9", 10);
    assert_eq!(
        floor(&lab),
        text("A:1-5"),
        "it does not follow the source by itself"
    );
}

#[test]
fn a_server_below_the_floor_is_flagged_until_it_catches_up() {
    let mut lab = Lab::unknown(2);
    lab.identify(1, 1, 0);
    lab.polled(1, replica_of(0), 0);
    lab.executed(1, "A:1-3", 0);
    lab = lab.start(1, "A:1-5");
    assert!(lab.server(0).covers_floor && !lab.server(1).covers_floor);
    lab.executed(1, "A:1-4", 10);
    assert!(!lab.server(1).covers_floor);
    lab.executed(1, "A:1-5", 11);
    assert!(lab.server(1).covers_floor);
}

#[test]
fn the_floor_rises_only_to_what_every_usable_server_has() {
    let mut lab = Lab::running(3, "A:1-5");
    lab.executed(0, "A:1-12", 10);
    lab.executed(1, "A:1-9", 11);
    lab.executed(2, "A:1-7:9-12", 12);
    assert!(lab.fleet.raise_floor(at(13), None));
    assert_eq!(
        floor(&lab),
        text("A:1-7:9"),
        "the intersection, gaps included"
    );
    assert!((0..3).all(|server| lab.server(server).covers_floor));
    assert!(!lab.fleet.raise_floor(at(14), None), "nothing moved");
}

#[test]
fn a_lost_server_does_not_hold_the_floor_and_is_flagged_when_it_is_back() {
    let mut lab = Lab::running(3, "A:1-5");
    lab.lose(2, 10);
    for server in [0, 1] {
        lab.executed(server, "A:1-9", 11);
    }
    lab.fleet.raise_floor(at(12), None);
    assert_eq!(floor(&lab), text("A:1-9"));
    lab.executed(2, "A:1-6", 13);
    assert!(!lab.server(2).covers_floor);
}

#[test]
fn under_pressure_a_lagging_replica_is_left_behind() {
    let second = Some(Duration::from_secs(1));
    let mut lab = Lab::running(3, "A:1-5");
    for server in [0, 1] {
        lab.executed(server, "A:1-9", 10);
    }
    lab.fleet.raise_floor(at(1010), second);
    assert_eq!(
        floor(&lab),
        text("A:1-5"),
        "it misses something for just a second"
    );
    lab.fleet.raise_floor(at(1011), second);
    assert_eq!(floor(&lab), text("A:1-9"));
    assert!(!lab.server(2).covers_floor && lab.server(1).covers_floor);
}

/// A row may show before the source lists its transaction, so that the floor's
/// date follows what the source had executed **and owned**.
#[test]
fn the_floor_is_dated_when_it_covers_all_that_could_be_seen() {
    let mut lab = Lab::running(2, "A:1-5");
    lab.fleet.raise_floor(at(1), None);
    assert_eq!(lab.fleet.floor().as_of, None, "nobody told what is owned");
    lab.probed(0, "A:7", "A:1-6", 10);
    lab.executed(1, "A:1-6", 11);
    lab.fleet.raise_floor(at(12), None);
    assert_eq!(floor(&lab), text("A:1-6"));
    assert_eq!(lab.fleet.floor().as_of, None, "7 may have been seen at 10");
    lab.executed(0, "A:1-7", 13);
    lab.fleet.raise_floor(at(14), None);
    assert_eq!(lab.fleet.floor().as_of, None, "7 is not everywhere");
    lab.executed(1, "A:1-7", 15);
    assert!(lab.fleet.raise_floor(at(16), None));
    assert_eq!(lab.fleet.floor().as_of, Some(at(10)));
}

#[test]
fn the_oldest_open_date_is_kept_under_a_stream_of_probes() {
    let mut lab = Lab::running(2, "A:1-5");
    lab.probed(0, "", "A:1-6", 10);
    lab.probed(0, "", "A:1-9", 20);
    lab.executed(1, "A:1-7", 21);
    lab.fleet.raise_floor(at(22), None);
    assert_eq!(lab.fleet.floor().as_of, Some(at(10)));
}

#[test]
fn an_owned_transaction_that_was_rolled_back_does_not_hold_the_date_for_ever() {
    let mut lab = Lab::running(2, "A:1-5");
    lab.probed(0, "A:9", "A:1-5", 10);
    lab.probed(0, "", "A:1-5", 20);
    lab.fleet.raise_floor(at(21), None);
    assert_eq!(lab.fleet.floor().as_of, Some(at(20)));
}

#[test]
fn a_replica_that_tells_what_it_owns_does_not_date_the_floor() {
    let mut lab = Lab::running(2, "A:1-5");
    lab.probed(1, "", "A:1-5", 10);
    lab.fleet.raise_floor(at(11), None);
    assert_eq!(lab.fleet.floor().as_of, None);
}

#[test]
fn what_a_failover_lost_leaves_the_floor() {
    let mut lab = Lab::running(2, "A:1-5");
    lab.lose(1, 5);
    lab.executed(0, "A:1-9", 10);
    lab.probed(0, "A:10", "A:1-9", 10);
    lab.fleet.raise_floor(at(11), None);
    assert_eq!(floor(&lab), text("A:1-9"));
    lab.lose(0, 20);
    assert!(!lab.fleet.raise_floor(at(21), None), "no source");
    lab.executed(1, "A:1-7,B:1", 22);
    lab.polled(1, alone(false), 22);
    lab.executed(0, "A:1-9", 23);
    lab.polled(0, replica_of(1), 24);
    assert_eq!(floor(&lab), text("A:1-7"));
    assert!(lab.server(1).covers_floor);
    lab.probed(1, "", "A:1-7,B:1", 30);
    lab.executed(0, "A:1-9,B:1", 31);
    lab.fleet.raise_floor(at(32), None);
    assert_eq!(
        lab.fleet.floor().as_of,
        Some(at(30)),
        "what A owned is asked for no more"
    );
}
