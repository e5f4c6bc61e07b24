//! How the rows should be, for fleets in every state.

use std::time::Duration;

use super::super::rows::Address;
use super::super::tier::{LastResort, Tier};
use super::*;
use crate::fleet::testing::{Lab, alone, at, replica_of, spec};
use crate::fleet::{FleetView, Role};

fn tier_spec() -> TierSpec {
    TierSpec {
        hostgroup: 21,
        max_staleness: Duration::from_millis(1_000),
        enter: Duration::from_millis(500),
        dwell: Duration::from_millis(2_000),
        min_readers: 1,
        last_resort: LastResort::Source,
        changes_per_minute_max: 30,
        max_replication_lag: 60,
    }
}

fn managed(hints: bool, tiers: usize) -> Managed {
    Managed {
        hints: hints.then_some(HintSpec { base: 9000 }),
        tiers: (0..tiers).map(|_| tier_spec()).collect(),
    }
}

fn addresses(servers: usize) -> Vec<Address> {
    let of = |server| Address::of(&spec(server, None));
    (0..servers).map(of).collect()
}

/// `9002 h1: on w10000000 always`, one line a row.
fn show(wants: &[Want]) -> String {
    let line = |want: &Want| {
        let mut words = vec![if want.on { "on" } else { "off" }.to_owned()];
        words.extend(want.weight.map(|weight| format!("w{weight}")));
        if want.lag_if_none > 0 {
            words.push(format!("lag{}", want.lag_if_none));
        }
        words.extend(match want.create {
            Create::Never => None,
            Create::Unplaced => Some("unplaced".to_owned()),
            Create::Always => Some("always".to_owned()),
        });
        let Address { host, .. } = &want.key.address;
        format!("{} {host}: {}", want.key.hostgroup, words.join(" "))
    };
    wants.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn check(view: &FleetView, managed: &Managed, members: &[Members], expected: &str) {
    let found = show(&wants(
        view,
        managed,
        members,
        &addresses(view.servers.len()),
    ));
    let expected: Vec<&str> = expected
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect();
    assert_eq!(found, expected.join("\n"));
}

fn check_hints(view: &FleetView, expected: &str) {
    check(view, &managed(true, 0), &[], expected);
}

/// The wants of a tier with these members.
fn check_tier(view: &FleetView, within: &[u16], last_resort: &[u16], expected: &str) {
    let list = |servers: &[u16]| servers.iter().map(|ix| ServerIx(*ix)).collect();
    let members = Members {
        within: list(within),
        last_resort: list(last_resort),
    };
    check(view, &managed(false, 1), &[members], expected);
}

#[test]
fn a_hint_hostgroup_holds_its_server_and_the_source_standing_by() {
    check_hints(
        &Lab::running(3, "A:1").view(),
        "9001 h0: on w10000000 always
         9001 h1: off w1
         9001 h2: off w1
         9002 h0: on w1 always
         9002 h1: on w10000000 always
         9002 h2: off w1
         9003 h0: on w1 always
         9003 h1: off w1
         9003 h2: on w10000000 always",
    );
}

#[test]
fn a_server_that_does_not_answer_leaves_its_hostgroup_to_the_source() {
    let mut lab = Lab::running(2, "A:1");
    lab.lose(1, 10);
    check_hints(
        &lab.view(),
        "9001 h0: on w10000000 always
         9001 h1: off w1
         9002 h0: on w1 always
         9002 h1: off w10000000",
    );
}

#[test]
fn without_a_source_who_stands_by_is_left_alone() {
    let mut lab = Lab::running(3, "A:1");
    lab.lose(0, 10);
    lab.lose(2, 10);
    // h0's and h2's own hostgroups: nobody could take work there.
    check_hints(&lab.view(), "9002 h1: on w10000000 always");
    lab.lose(1, 11);
    check_hints(&lab.view(), "");
}

#[test]
fn after_a_failover_the_new_source_stands_by() {
    let mut lab = Lab::running(3, "A:1");
    lab.lose(0, 10);
    lab.polled(1, alone(false), 20);
    lab.polled(2, replica_of(1), 20);
    let view = lab.view();
    assert_eq!(view.source, Ok(ServerIx(1)), "the scene is as meant");
    check_hints(
        &view,
        "9001 h0: off w10000000
         9001 h1: on w1 always
         9001 h2: off w1
         9002 h0: off w1
         9002 h1: on w10000000 always
         9002 h2: off w1
         9003 h0: off w1
         9003 h1: on w1 always
         9003 h2: on w10000000 always",
    );
}

#[test]
fn a_tier_offers_its_members_and_nobody_else() {
    check_tier(
        &Lab::running(3, "A:1").view(),
        &[1],
        &[],
        "21 h0: off
         21 h1: on lag60 unplaced
         21 h2: off lag60",
    );
}

#[test]
fn the_source_as_last_resort_is_put_even_where_a_monitor_places() {
    check_tier(
        &Lab::running(3, "A:1").view(),
        &[1],
        &[0],
        "21 h0: on always
         21 h1: on lag60 unplaced
         21 h2: off lag60",
    );
}

#[test]
fn a_stale_replica_as_last_resort_takes_work() {
    check_tier(
        &Lab::running(2, "A:1").view(),
        &[],
        &[1],
        "21 h0: off
         21 h1: on lag60 unplaced",
    );
}

#[test]
fn a_tier_that_nobody_could_serve_is_left_alone() {
    check_tier(&Lab::running(2, "A:1").view(), &[], &[], "");
}

#[test]
fn every_tier_has_its_own_members() {
    let other = TierSpec {
        hostgroup: 22,
        max_replication_lag: 0,
        ..tier_spec()
    };
    let managed = Managed {
        hints: None,
        tiers: vec![tier_spec(), other],
    };
    let of = |server: u16| Members {
        within: vec![ServerIx(server)],
        last_resort: Vec::new(),
    };
    check(
        &Lab::running(3, "A:1").view(),
        &managed,
        &[of(1), of(2)],
        "21 h0: off
         21 h1: on lag60 unplaced
         21 h2: off lag60
         22 h0: off
         22 h1: off
         22 h2: on unplaced",
    );
}

#[test]
fn managed_hostgroups_are_those_of_all_servers_and_tiers() {
    let found = managed(true, 1).hostgroups(3);
    assert_eq!(Vec::from_iter(found), [21, 9001, 9002, 9003]);
    assert!(managed(false, 0).hostgroups(3).is_empty());
}

/// No hostgroup is ever planned empty: either somebody takes work in it, or it
/// is left alone.
#[test]
fn no_hostgroup_is_emptied_whoever_is_lost() {
    for lost in 0..16_u32 {
        let mut lab = Lab::running(4, "A:1");
        for server in (0..4).filter(|server| lost & (1 << server) != 0) {
            lab.lose(server, 10);
        }
        let (view, managed) = (lab.view(), managed(true, 1));
        let members = [Tier::new(tier_spec()).update(&view, at(20))];
        let wants = wants(&view, &managed, &members, &addresses(4));
        for want in &wants {
            let same = |other: &&Want| other.key.hostgroup == want.key.hostgroup;
            assert!(
                wants.iter().filter(same).any(|want| want.on),
                "{lost:04b}: {want:?}"
            );
        }
        for want in wants.iter().filter(|want| want.on) {
            let at = addresses(4).iter().position(|at| *at == want.key.address);
            let server = &view.servers[at.expect("a server of the fleet")];
            assert!(server.usable && server.role != Role::Unknown, "{want:?}");
        }
    }
}

/// The judge's steps over an hour in which every replica wobbles, far within the
/// bound: the wants stay the same, so that nothing is planned.
#[test]
fn an_hour_of_steady_state_wants_the_same() {
    let mut lab = Lab::running(4, "A:1");
    let (managed, addresses) = (managed(true, 1), addresses(4));
    let mut tier = Tier::new(tier_spec());
    let mut look = |view: &FleetView, ms: u64| {
        let members = [tier.update(view, at(ms))];
        let deadline = tier.deadline(view, at(ms));
        (wants(view, &managed, &members, &addresses), deadline)
    };
    let (first, _) = look(&lab.view(), 0);
    assert_eq!(
        first
            .iter()
            .filter(|want| want.key.hostgroup == 21 && want.on)
            .count(),
        3
    );
    for step in 1..=18_000_u64 {
        let ms = step * 200;
        let set = format!("A:1-{}", step + 1);
        lab.executed(0, &set, ms);
        for server in 1..4_u64 {
            // Two of three looks, never missing two in a row: 200 ms.
            if (step + server) % 3 != 0 {
                lab.executed(usize::try_from(server).expect("few"), &set, ms);
            }
        }
        let (now, deadline) = look(&lab.view(), ms);
        assert_eq!(now, first, "at {ms} ms");
        assert!(deadline.is_some_and(|deadline| deadline > at(ms + 200)));
    }
}
