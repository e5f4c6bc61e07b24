//! Staleness: never less than it is.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use crate::fleet::ring::Ring;
use crate::fleet::testing::{Lab, at, set, sid};
use crate::gtid::{Gtid, GtidSet};
use crate::moment::Moment;

fn recorded(entries: &[(&str, u64, u64)]) -> Ring {
    let mut ring = Ring::default();
    for (text, asked, answered) in entries {
        ring.record(&Arc::new(set(text)), at(*asked), at(*answered));
    }
    ring
}

fn standing(ring: &Ring, executed: &str) -> (Option<Moment>, Option<Moment>) {
    let standing = ring.standing(&set(executed));
    (standing.fresh_as_of, standing.missing_since)
}

#[test]
fn an_empty_history_tells_nothing() {
    assert_eq!(standing(&Ring::default(), "A:1-5"), (None, None));
}

#[test]
fn a_replica_is_as_fresh_as_the_newest_set_it_covers() {
    let ring = recorded(&[("A:1-5", 10, 12), ("A:1-7", 20, 22), ("A:1-9", 30, 32)]);
    for (executed, fresh, missing) in [
        ("A:1-9", Some(30), None),
        ("A:1-20", Some(30), None),
        ("A:1-8", Some(20), Some(32)),
        ("A:1-6:8-9", Some(10), Some(22)),
        ("A:1-4:6-9", None, Some(12)),
        ("", None, Some(12)),
    ] {
        assert_eq!(
            standing(&ring, executed),
            (fresh.map(at), missing.map(at)),
            "{executed}"
        );
    }
}

#[test]
fn an_idle_source_keeps_its_replicas_fresh() {
    let ring = recorded(&[("A:1-5", 10, 12), ("A:1-5", 50, 51), ("A:1-5", 40, 52)]);
    assert_eq!(standing(&ring, "A:1-5"), (Some(at(50)), None));
    assert_eq!(
        standing(&ring, "A:1-4"),
        (None, Some(at(12))),
        "first seen, not last seen"
    );
}

#[test]
fn another_history_replaces_the_old_one() {
    let ring = recorded(&[("A:1-5", 10, 12), ("A:1-3,B:1", 20, 22)]);
    assert_eq!(standing(&ring, "A:1-5"), (None, Some(at(22))));
}

#[test]
fn thinning_only_makes_a_replica_look_older() {
    let mut ring = Ring::default();
    let up_to = |gno| {
        let mut set = GtidSet::default();
        set.insert_range(sid(0), 1, gno);
        Arc::new(set)
    };
    for gno in 1..=20_000 {
        ring.record(&up_to(gno), at(gno * 10), at(gno * 10 + 3));
    }
    for gno in 1..=20_000 {
        let standing = ring.standing(&up_to(gno));
        assert!(standing.fresh_as_of <= Some(at(gno * 10)), "{gno}");
        let missing = standing.missing_since.unwrap_or(at(u64::MAX / 1000));
        assert!(missing <= at((gno + 1) * 10 + 3) || gno == 20_000, "{gno}");
        // The newest quarter of what is kept is exact.
        assert!(
            gno < 19_500 || standing.fresh_as_of == Some(at(gno * 10)),
            "{gno}"
        );
    }
}

#[test]
fn a_replica_s_staleness_is_measured_by_its_own_report_and_the_source_s() {
    let mut lab = Lab::running(2, "A:1-5");
    lab.executed(0, "A:1-6", 100);
    assert_eq!(lab.server(1).fresh_as_of, Some(at(0)));
    assert_eq!(lab.server(1).missing_since, Some(at(100)));
    lab.executed(1, "A:1-6", 130);
    assert_eq!(
        lab.server(1).fresh_as_of,
        Some(at(100)),
        "when the source was asked, not when the replica answered"
    );
    assert_eq!(lab.server(1).staleness(at(150)), Some(at(50).since(at(0))));
    lab.executed(0, "A:1-6", 200);
    assert_eq!(lab.server(1).fresh_as_of, Some(at(200)));
    lab.lose(0, 300);
    assert_eq!(
        lab.server(1).fresh_as_of,
        Some(at(200)),
        "a fact stays one, and grows old"
    );
}

#[derive(Clone, Debug)]
enum Happening {
    /// The source commits this many.
    Commit(u64),
    /// The source is asked; so many commits happen before it reads its set, and
    /// so many after that before the answer arrives.
    AskSource(u64, u64),
    /// The replica executes one of what it misses.
    Apply(prop::sample::Index),
    /// The replica is asked.
    AskReplica,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        3 => (1..4_u64).prop_map(Happening::Commit),
        3 => (0..3_u64, 0..3_u64).prop_map(|(before, after)| Happening::AskSource(before, after)),
        5 => any::<prop::sample::Index>().prop_map(Happening::Apply),
        3 => Just(Happening::AskReplica),
    ]
}

/// The truth: when each transaction was executed on the source.
#[derive(Default)]
struct World {
    clock: u64,
    committed: Vec<u64>,
    replica: BTreeSet<u64>,
}

impl World {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn commit(&mut self, count: u64) {
        for _ in 0..count {
            let now = self.tick();
            self.committed.push(now);
        }
    }

    fn source_set(&self) -> GtidSet {
        let mut set = GtidSet::default();
        set.insert_range(sid(0), 1, self.committed.len() as u64);
        set
    }

    fn replica_set(&self) -> GtidSet {
        self.replica
            .iter()
            .map(|&gno| Gtid { sid: sid(0), gno })
            .collect()
    }

    fn apply(&mut self, which: &prop::sample::Index) {
        let missing: Vec<u64> = (1..=self.committed.len() as u64)
            .filter(|gno| !self.replica.contains(gno))
            .collect();
        if !missing.is_empty() {
            self.replica
                .insert(missing[which.index(missing.len().min(4))]);
        }
    }

    /// The moment from which on the replica misses something.
    fn stale_from(&self) -> u64 {
        let first_missing = |(i, _): &(usize, &u64)| !self.replica.contains(&(*i as u64 + 1));
        let found = self.committed.iter().enumerate().find(first_missing);
        found.map_or(u64::MAX, |(_, executed_at)| *executed_at)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn staleness_is_never_underestimated(happenings in prop::collection::vec(happening(), 1..120)) {
        let mut world = World::default();
        let mut lab = Lab::running(2, "");
        for happening in happenings {
            match happening {
                Happening::Commit(count) => world.commit(count),
                Happening::Apply(which) => world.apply(&which),
                Happening::AskReplica => {
                    let asked = world.tick();
                    lab.executed(1, &spelled(&world.replica_set()), asked);
                }
                Happening::AskSource(before, after) => {
                    let asked = world.tick();
                    world.commit(before);
                    let read = spelled(&world.source_set());
                    world.commit(after);
                    let answered = world.tick();
                    lab.sampled(0, crate::fleet::testing::sample(0, &read, asked, answered));
                }
            }
            let claimed = lab.server(1).fresh_as_of;
            prop_assert!(claimed.is_none_or(|fresh| fresh < at(world.stale_from().min(1 << 40))),
                "claims {claimed:?}, stale from {}", world.stale_from());
        }
    }
}

fn spelled(set: &GtidSet) -> String {
    set.to_string()
}
