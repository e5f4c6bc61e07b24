//! The table against a naive one that forgets nothing.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::fleet::testing::sid;
use crate::gtid::Gtid;

#[derive(Clone, Debug)]
enum Act {
    Write(u8, Vec<(usize, u64)>),
    Prefix(u8, u64),
    RaiseFloor(u64),
    Sweep,
    Pass(u64),
    Forget(u8),
    Rebase(u8, u64),
}

fn act() -> impl Strategy<Value = Act> {
    let user = 0..4_u8;
    prop_oneof![
        6 => (user.clone(), prop::collection::vec((0..2_usize, 1..60_u64), 1..6))
            .prop_map(|(user, gtids)| Act::Write(user, gtids)),
        2 => (user.clone(), 1..60_u64).prop_map(|(user, gno)| Act::Prefix(user, gno)),
        3 => (0..60_u64).prop_map(Act::RaiseFloor),
        3 => Just(Act::Sweep),
        2 => (0..3_000_u64).prop_map(Act::Pass),
        1 => user.clone().prop_map(Act::Forget),
        1 => (user, 1..60_u64).prop_map(|(user, gno)| Act::Rebase(user, gno)),
    ]
}

/// All that a session wrote, and when last; nothing is ever settled.
#[derive(Default)]
struct Naive {
    wrote: HashMap<u8, (GtidSet, u64)>,
    /// What expired included: a slot not swept yet may still ask for it.
    ever: HashMap<u8, GtidSet>,
}

struct Pair {
    sessions: Sessions,
    naive: Naive,
    floor: Floor,
    now: u64,
}

impl Pair {
    fn key(&self, user: u8) -> Key {
        self.sessions.key(&user.to_string())
    }

    fn write(&mut self, user: u8, set: &GtidSet) {
        let source = up_to(60);
        let above = Requirement::above(set, &self.floor.set);
        let kept = self.sessions.write(
            self.key(user),
            &above,
            &self.floor,
            Some(&source),
            at(self.now),
        );
        assert_eq!(kept, Kept::Stored);
        let entry = self.naive.wrote.entry(user).or_default();
        if self.now >= entry.1 + 10_000 {
            entry.0 = GtidSet::default();
        }
        entry.0.union_with(set);
        entry.1 = self.now;
        self.naive.ever.entry(user).or_default().union_with(set);
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Write(user, gtids) => {
                let gtids = gtids.into_iter().map(|(s, gno)| Gtid { sid: sid(s), gno });
                self.write(user, &gtids.collect());
            }
            Act::Prefix(user, gno) => self.write(user, &up_to(gno)),
            Act::RaiseFloor(gno) => {
                self.floor.set = Arc::new(self.floor.set.union(&up_to(gno)));
            }
            Act::Sweep => sweep(&self.sessions, &self.floor, self.now),
            Act::Pass(ms) => self.now += ms,
            Act::Forget(user) => {
                self.sessions.forget(self.key(user));
                self.naive.wrote.remove(&user);
                self.naive.ever.remove(&user);
            }
            Act::Rebase(user, gno) => {
                let lost = GtidSet::from(Gtid { sid: sid(1), gno });
                self.sessions.rebase(self.key(user), &lost);
                if let Some((set, _)) = self.naive.wrote.get_mut(&user) {
                    *set = set.subtract(&lost);
                    let ever = self.naive.ever.entry(user).or_default();
                    *ever = ever.subtract(&lost);
                }
            }
        }
    }

    fn check(&self) {
        for (user, (wrote, last)) in &self.naive.wrote {
            let state = self.sessions.state(self.key(*user), at(self.now));
            let asked = state.requirement.to_set().union(&self.floor.set);
            let expired = self.now >= last + 10_000;
            assert!(
                expired || asked.contains_set(wrote),
                "{user}: {asked} for {wrote}"
            );
            let all = up_to(60).union(&self.naive.ever[user]);
            assert!(
                all.contains_set(&state.requirement.to_set()),
                "asks for what never was"
            );
        }
    }
}

fn up_to(gno: u64) -> GtidSet {
    let mut set = GtidSet::default();
    if gno > 0 {
        set.insert_range(sid(0), 1, gno);
    }
    set
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requirement_and_floor_cover_all_that_was_written(acts in prop::collection::vec(act(), 1..60)) {
        let mut pair = Pair {
            sessions: table(LIMITS),
            naive: Naive::default(),
            floor: Floor::default(),
            now: 0,
        };
        for act in acts {
            pair.act(act);
            pair.check();
        }
    }
}
