//! Which of several fitting replicas: zones, and an even spread by load.

use super::*;
use crate::fleet::testing::{replica_of, spec};

/// Source in zone a; replicas in a, b, b.
fn zoned() -> Lab {
    let zones = [Some("a"), Some("a"), Some("b"), Some("b")];
    let specs: Vec<_> = zones
        .iter()
        .enumerate()
        .map(|(i, zone)| spec(i, *zone))
        .collect();
    Lab::of(&specs).start(4, "A:1-5")
}

/// How many of many reads each server gets, each counted as it is sent.
fn spread(lab: &Lab, mut ask: Ask, reads: u64) -> Vec<u64> {
    let view = lab.view();
    let mut counts = vec![0; view.servers.len()];
    for i in 0..reads {
        // SplitMix64's finaliser: the seeds of a router.
        let mut z = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ask.seed = z ^ (z >> 27);
        let Step::Answer(decision) = decide(&view, &ask, at(1000)) else {
            panic!("no answer");
        };
        view.server(decision.server).load.assign();
        counts[decision.server.index()] += 1;
    }
    counts
}

#[test]
fn equally_good_replicas_share_the_reads_evenly() {
    let counts = spread(&Lab::running(4, "A:1-5"), ask(Consistency::Session), 3000);
    assert_eq!(counts[0], 0, "none to the source");
    assert!(
        counts[1..].iter().all(|count| (950..=1050).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn a_busy_replica_gets_fewer_reads() {
    let mut lab = Lab::running(3, "A:1-5");
    for (server, threads) in [(1, 1), (2, 5)] {
        let mut status = replica_of(0);
        status.threads_running = Some(threads);
        lab.polled(server, status, 1);
    }
    let counts = spread(&lab, ask(Consistency::Session), 3000);
    assert!(
        (700..=800).contains(&counts[2]),
        "a third of the other's: {counts:?}"
    );
}

#[test]
fn one_s_own_zone_comes_first_as_long_as_it_fits() {
    let mut lab = zoned();
    let mut ask = ask(Consistency::Session);
    ask.policy.zone = lab.server(2).info.zone_number;
    let counts = spread(&lab, ask.clone(), 1000);
    assert_eq!((counts[0], counts[1]), (0, 0));
    assert!(counts[2].abs_diff(counts[3]) < 60, "{counts:?}");
    lab.lose(2, 10);
    lab.lose(3, 10);
    assert_eq!(spread(&lab, ask, 100)[1], 100);
}

#[test]
fn zones_are_numbered_from_one_in_the_order_of_the_configuration() {
    let lab = zoned();
    let numbers: Vec<u16> = (0..4)
        .map(|server| lab.server(server).info.zone_number)
        .collect();
    assert_eq!(numbers, [1, 1, 2, 2]);
    assert_eq!(Lab::running(1, "").server(0).info.zone_number, 0);
}

#[test]
fn any_seed_chooses_some_fitting_replica() {
    for replicas in 1..6 {
        let lab = Lab::running(replicas + 1, "A:1-5");
        for seed in [0, 1, u64::MAX, u64::MAX << 32, u64::from(u32::MAX), 1 << 32] {
            let mut ask = ask(Consistency::Session);
            ask.seed = seed;
            assert!(step(&lab, &ask, 1000).ends_with("replica_fresh"));
        }
    }
}
