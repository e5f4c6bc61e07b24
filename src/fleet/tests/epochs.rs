//! Epochs: a shrunk set or another server replaces what was known.

use crate::fleet::testing::{Lab, at, replica_of, sample, set};
use crate::fleet::{Life, Notice, ServerIx};

/// Invariant 4: evidence is replaced, not merged.
#[test]
fn invariant_4_a_shrunk_set_starts_a_new_epoch_and_replaces_the_old_evidence() {
    for shrunk in ["", "A:1-3", "A:1-4:6-9", "B:1"] {
        let mut lab = Lab::running(2, "A:1-5");
        let life = lab.server(1).life;
        assert!(lab.executed(1, shrunk, 10));
        assert_eq!(lab.evidence(1), Some(set(shrunk)), "{shrunk}");
        assert_ne!(lab.server(1).life, life, "{shrunk}");
        assert_eq!(lab.server(1).epoch(), 2, "{shrunk}");
        assert!(
            lab.fleet
                .take_notices()
                .contains(&Notice::NewEpoch(ServerIx(1)))
        );
    }
}

#[test]
fn growth_over_several_uuids_and_gaps_is_the_same_epoch() {
    let mut lab = Lab::running(2, "A:1-5");
    for (i, grown) in ["A:1-5:9", "A:1-6:9", "A:1-9,B:1", "A:1-9,B:1-2"]
        .iter()
        .enumerate()
    {
        lab.executed(1, grown, 10 + i as u64);
        assert_eq!(lab.server(1).epoch(), 1, "{grown}");
    }
}

#[test]
fn a_set_that_shrunk_while_the_connection_was_lost_is_a_new_epoch() {
    let mut lab = Lab::running(2, "A:1-5");
    let life = lab.server(1).life;
    lab.lose(1, 10);
    lab.identify(1, 1, 11);
    lab.executed(1, "A:1-4", 12);
    assert_eq!(lab.evidence(1), Some(set("A:1-4")));
    assert_ne!(lab.server(1).life, life);
}

#[test]
fn another_server_uuid_is_a_new_epoch_without_evidence() {
    let mut lab = Lab::running(2, "A:1-5");
    let life = lab.server(1).life;
    lab.identify(1, 3, 10);
    let server = lab.server(1);
    assert!(!server.usable && server.executed().is_none() && server.status().is_none());
    assert_ne!(server.life, life);
    assert_eq!(server.fresh_as_of, None);
    let mut smaller = sample(3, "A:1-2", 11, 12);
    lab.sampled(1, smaller.clone());
    assert_eq!(lab.evidence(1), Some(set("A:1-2")));
    assert_eq!(
        lab.server(1).epoch(),
        2,
        "its first set is no second new epoch"
    );
    smaller.asked = at(9);
    assert!(
        !lab.sampled(1, smaller),
        "asked before the new server was met"
    );
}

/// The answer that brought the news overlapped with the old one.
#[test]
fn answers_still_under_way_from_the_epoch_that_ended_are_ignored() {
    let mut lab = Lab::running(2, "A:1-5");
    lab.sampled(1, sample(1, "A:1-2", 10, 12));
    assert_eq!(lab.server(1).epoch(), 2);
    for asked in [5, 10, 11] {
        let old = sample(1, "A:1-9", asked, 14);
        assert!(
            !lab.sampled(1, old),
            "asked at {asked}, read before the reset"
        );
        assert_eq!(lab.evidence(1), Some(set("A:1-2")));
    }
    assert!(lab.sampled(1, sample(1, "A:1-3", 12, 15)));
    assert_eq!(lab.evidence(1), Some(set("A:1-3")));
}

#[test]
fn a_life_is_never_used_again() {
    let mut lab = Lab::running(3, "A:1-5");
    let mut seen: Vec<Life> = (0..3).map(|server| lab.server(server).life).collect();
    for round in 1..20_u64 {
        let server = usize::try_from(round % 3).expect("small");
        match round % 2 {
            0 => lab.executed(server, "A:1-4", round * 10),
            _ => lab.executed(server, "A:1-3:5", round * 10),
        };
        let life = lab.server(server).life;
        assert!(!seen.contains(&life) && life != Life::default());
        seen.push(life);
        assert_eq!(
            lab.view().living(life).map(|found| found.ix.index()),
            Some(server)
        );
    }
    assert!(lab.view().living(seen[0]).is_none());
}

#[test]
fn a_reset_of_the_source_drops_its_history() {
    let mut lab = Lab::running(2, "A:1-5");
    lab.executed(0, "A:1-9", 10);
    lab.executed(1, "A:1-9", 11);
    lab.polled(1, replica_of(0), 11);
    lab.executed(0, "A:1-2", 20);
    assert_eq!(
        lab.view().source,
        Ok(ServerIx(0)),
        "a replica still follows it"
    );
    assert_eq!(lab.server(1).fresh_as_of, Some(at(20)));
    lab.executed(0, "A:1-2", 30);
    assert_eq!(lab.server(1).fresh_as_of, Some(at(30)));
}
