//! What a tier promises: the bound at once, the way back with patience.

use proptest::prelude::*;

use super::*;
use crate::fleet::testing::{Lab, at, ix};

const DWELL_MS: u64 = 2_000;

fn spec() -> TierSpec {
    TierSpec {
        hostgroup: 21,
        max_staleness: Duration::from_millis(1_000),
        enter: Duration::from_millis(500),
        dwell: Duration::from_millis(DWELL_MS),
        min_readers: 1,
        last_resort: LastResort::Source,
        changes_per_minute_max: 30,
        max_replication_lag: 60,
    }
}

/// Time goes on in steps; the source and the replicas that keep up report right
/// before every look.
struct Scene {
    lab: Lab,
    tier: Tier,
    gno: u64,
    /// Replicas that keep up now.
    fresh: Vec<bool>,
}

impl Scene {
    /// A source and `replicas`, none of them looked at yet.
    fn new(replicas: usize, spec: TierSpec) -> Self {
        Self {
            lab: Lab::running(replicas + 1, "A:1"),
            tier: Tier::new(spec),
            gno: 1,
            fresh: vec![true; replicas + 1],
        }
    }

    /// The source commits; who is fresh has it too.
    fn news(&mut self, ms: u64) {
        self.gno += 1;
        let set = format!("A:1-{}", self.gno);
        self.lab.executed(0, &set, ms);
        for server in 1..self.fresh.len() {
            if self.fresh[server] {
                self.lab.executed(server, &set, ms);
            }
        }
    }

    fn look(&mut self, ms: u64) -> String {
        show(&self.tier.update(&self.lab.view(), at(ms)))
    }

    fn step(&mut self, ms: u64) -> String {
        self.news(ms);
        self.look(ms)
    }

    /// The first moment, in steps of 10 ms, at which the tier offers `expected`.
    fn until(&mut self, from: u64, expected: &str) -> u64 {
        (from..from + 200_000)
            .step_by(10)
            .find(|ms| self.step(*ms) == expected)
            .unwrap_or_else(|| panic!("never {expected:?}"))
    }

    fn deadline(&self, ms: u64) -> Option<u64> {
        let deadline = self.tier.deadline(&self.lab.view(), at(ms));
        deadline.map(Moment::micros)
    }
}

/// `1 2 | 0`: within, and behind the bar the last resort.
fn show(members: &Members) -> String {
    let list = |servers: &[ServerIx]| {
        let names: Vec<String> = servers.iter().map(|ix| ix.0.to_string()).collect();
        names.join(" ")
    };
    let (within, last) = (list(&members.within), list(&members.last_resort));
    if last.is_empty() {
        within
    } else {
        format!("{within}|{last}")
    }
}

#[test]
fn the_first_look_takes_every_replica_within_the_bound() {
    let mut scene = Scene::new(3, spec());
    scene.lab.executed(0, "A:1-2", 100);
    scene.lab.executed(2, "A:1-2", 700);
    scene.lab.lose(3, 700);
    // 1 is 1,000 ms stale, 2 not at all, of 3 nothing is known.
    assert_eq!(scene.look(1_000), "1 2");
}

#[test]
fn before_a_source_is_known_nothing_is_decided() {
    let mut scene = Scene::new(1, spec());
    scene.lab.lose(0, 10);
    assert_eq!(scene.look(20), "|1");
    scene.lab = Lab::running(2, "A:1");
    assert_eq!(scene.look(30), "1", "no dwell time after the start");
}

#[test]
fn a_replica_leaves_the_moment_it_is_past_the_bound() {
    let mut scene = Scene::new(2, spec());
    assert_eq!(scene.step(0), "1 2");
    scene.fresh[1] = false;
    // 1 has everything up to the moment before 100.
    for ms in [100, 500, 1_000] {
        assert_eq!(scene.step(ms), "1 2", "{ms}");
    }
    assert_eq!(scene.deadline(1_000), Some(1_000_001));
    scene.lab.executed(2, "A:1-4", 1_001);
    assert_eq!(scene.look(1_001), "2");
}

#[test]
fn a_replica_of_which_nothing_is_known_leaves_at_once() {
    let mut scene = Scene::new(2, spec());
    assert_eq!(scene.step(0), "1 2");
    scene.lab.lose(1, 1);
    assert_eq!(scene.look(1), "2");
    scene.lab.lose(0, 2);
    assert_eq!(
        scene.look(2),
        "|2",
        "without a source no staleness is known"
    );
}

#[test]
fn a_replica_comes_back_after_twice_the_dwell_time() {
    let mut scene = Scene::new(2, spec());
    scene.step(0);
    scene.lab.lose(1, 10);
    assert_eq!(scene.look(10), "2");
    scene.lab = Lab::running(3, "A:1");
    // Well again from 20 on: rest counts from when it left.
    assert_eq!(scene.until(20, "1 2"), 10 + 2 * DWELL_MS);
}

#[test]
fn a_replica_comes_back_after_the_dwell_time_within_the_threshold() {
    let mut scene = Scene::new(2, spec());
    scene.step(0);
    scene.fresh[1] = false;
    scene.until(10, "2");
    // Long rested, but 600 ms stale: within the bound, not within the threshold.
    for ms in (20_000..30_000).step_by(10) {
        scene.news(ms);
        let old = format!("A:1-{}", scene.gno - 60);
        scene.lab.executed(1, &old, ms);
        assert_eq!(scene.look(ms), "2", "{ms}");
    }
    scene.fresh[1] = true;
    assert_eq!(scene.until(30_000, "1 2"), 30_000 + DWELL_MS);
}

#[test]
fn a_break_starts_the_dwell_time_anew() {
    let mut scene = Scene::new(2, spec());
    scene.step(0);
    scene.fresh[1] = false;
    scene.until(10, "2");
    scene.fresh[1] = true;
    for ms in (20_000..21_900).step_by(10) {
        assert_eq!(scene.step(ms), "2");
    }
    // Silence: the deadline is when the threshold is passed.
    assert_eq!(
        scene.deadline(21_890),
        Some(22_000_000),
        "ready comes first"
    );
    let mut quiet = Scene::new(1, spec());
    quiet.lab.lose(1, 1);
    quiet.look(1);
    quiet.lab = Lab::running(2, "A:1");
    quiet.step(10);
    assert_eq!(quiet.deadline(10), Some(510_001));
    quiet.look(511);
    quiet.step(520);
    assert_eq!(quiet.until(520, "1"), 520 + DWELL_MS);
}

#[test]
fn the_budget_caps_coming_back_and_never_leaving() {
    let tight = TierSpec {
        changes_per_minute_max: 2,
        ..spec()
    };
    let mut scene = Scene::new(4, tight);
    assert_eq!(scene.step(0), "1 2 3 4");
    scene.fresh = vec![true, false, false, false, false];
    scene.until(10, "|0");
    scene.fresh = vec![true; 5];
    let first = scene.until(20_000, "1 2");
    assert_eq!(first, 20_000 + DWELL_MS);
    scene.news(first + 10);
    assert_eq!(scene.look(first + 10), "1 2");
    let third = scene.until(first + 20, "1 2 3 4");
    assert_eq!(third, first + 60_000);
    // Everyone may leave again, within the same minute.
    for server in 1..5 {
        scene.lab.lose(server, third + 1);
    }
    assert_eq!(scene.look(third + 1), "|0");
}

#[test]
fn who_waits_for_the_budget_has_its_end_as_deadline() {
    let tight = TierSpec {
        changes_per_minute_max: 1,
        enter: Duration::from_millis(900_000),
        max_staleness: Duration::from_millis(1_000_000),
        ..spec()
    };
    let mut scene = Scene::new(2, tight);
    scene.step(0);
    scene.lab.lose(1, 1);
    scene.lab.lose(2, 1);
    scene.look(1);
    scene.lab = Lab::running(3, "A:1");
    scene.look(2);
    assert_eq!(scene.look(4_001), "1");
    assert_eq!(scene.deadline(4_001), Some(64_001_000));
    assert_eq!(scene.look(64_000), "1");
    assert_eq!(scene.look(64_001), "1 2");
}

/// What is offered with `within` of three replicas fresh, the others 5 s stale.
fn short_of(min_readers: usize, last_resort: LastResort, fresh: &[usize], source: bool) -> String {
    let spec = TierSpec {
        min_readers,
        last_resort,
        ..spec()
    };
    let mut scene = Scene::new(3, spec);
    scene.step(0);
    for server in 1..=3_usize {
        scene.fresh[server] = fresh.contains(&server);
    }
    // 3 is a little less stale than 1 and 2.
    scene.news(100);
    let set = format!("A:1-{}", scene.gno);
    scene.lab.executed(3, &set, 100);
    scene.news(200);
    scene.news(5_000);
    if !source {
        scene.lab.lose(0, 5_000);
    }
    scene.look(5_000)
}

#[test]
fn too_few_members_call_for_the_last_resort() {
    use LastResort::{LeastStale, Source};
    let cases = [
        (1, Source, &[1, 2][..], true, "1 2"),
        (2, Source, &[1][..], true, "1|0"),
        (1, Source, &[][..], true, "|0"),
        (0, Source, &[][..], true, "|0"),
        (2, LeastStale, &[1][..], true, "1|3"),
        (3, LeastStale, &[1][..], true, "1|2 3"),
        (9, LeastStale, &[1, 2, 3][..], true, "1 2 3"),
        (1, LeastStale, &[][..], true, "|3"),
        // Without a source nobody can be judged, so all who work stay.
        (1, Source, &[1][..], false, "|1 2 3"),
        (2, Source, &[][..], false, "|1 2 3"),
        (2, LeastStale, &[][..], false, "|1 2 3"),
    ];
    for (min, resort, fresh, source, expected) in cases {
        let found = short_of(min, resort, fresh, source);
        assert_eq!(found, expected, "{min} {resort:?} {fresh:?} {source}");
    }
}

#[test]
fn without_any_replica_the_source_stands_in_for_the_least_stale() {
    let spec = TierSpec {
        last_resort: LastResort::LeastStale,
        ..spec()
    };
    let mut scene = Scene::new(2, spec);
    scene.lab.lose(1, 1);
    scene.lab.lose(2, 1);
    assert_eq!(scene.look(1), "|0");
    scene.lab.lose(0, 2);
    assert_eq!(scene.look(2), "", "nobody can take work");
}

#[test]
fn a_replica_of_unknown_staleness_is_the_very_last() {
    let mut view = Lab::running(3, "A:1").view();
    view.servers[1].fresh_as_of = None;
    view.servers[2].fresh_as_of = Some(at(0));
    let spec = TierSpec {
        last_resort: LastResort::LeastStale,
        ..spec()
    };
    let members = Tier::new(spec).update(&view, at(900_000));
    assert_eq!(show(&members), "|2");
}

#[test]
fn who_stands_in_stays_while_another_is_only_a_little_fresher() {
    let spec = TierSpec {
        last_resort: LastResort::LeastStale,
        ..spec()
    };
    let mut tier = Tier::new(spec);
    let mut view = Lab::running(3, "A:1").view();
    let mut look = |one: u64, two: u64| {
        view.servers[1].fresh_as_of = Some(at(100_000 - one));
        view.servers[2].fresh_as_of = Some(at(100_000 - two));
        show(&tier.update(&view, at(100_000)))
    };
    assert_eq!(look(5_000, 5_100), "|1");
    // Both wobble around 5 s, as two delayed replicas do.
    for (one, two) in [(5_100, 5_000), (5_000, 5_100), (6_000, 5_000)] {
        assert_eq!(look(one, two), "|1", "{one} {two}");
    }
    assert_eq!(look(6_101, 5_100), "|2", "by more than the bound");
    assert_eq!(look(5_100, 6_000), "|2");
}

#[test]
fn a_replica_that_swings_around_the_bound_changes_seldom() {
    let mut scene = Scene::new(2, spec());
    let (mut before, mut changes) = (scene.step(0), 0);
    for ms in (10..60_000).step_by(10) {
        // 1.2 s of silence, 0.8 s in step.
        scene.fresh[1] = ms % 2_000 >= 1_200;
        let now = scene.step(ms);
        changes += usize::from(now != before);
        before = now;
    }
    // It is never within the threshold for a whole dwell time.
    assert_eq!((before.as_str(), changes), ("2", 1));
}

/// What may happen between two looks.
#[derive(Clone, Debug)]
enum Happens {
    /// The replica is this stale now; `None` when nothing is known of it.
    Stale(usize, Option<u64>),
    /// The server's connection breaks or comes back.
    Usable(usize, bool),
    /// The source is known, or not.
    Source(bool),
}

fn happens() -> impl Strategy<Value = Happens> {
    let staleness = prop_oneof![
        1 => Just(None),
        5 => (0..600_u64).prop_map(Some),
        3 => (400..1_400_u64).prop_map(Some),
    ];
    prop_oneof![
        8 => (1..4_usize, staleness).prop_map(|(of, ms)| Happens::Stale(of, ms)),
        1 => (0..4_usize, any::<bool>()).prop_map(|(of, usable)| Happens::Usable(of, usable)),
        1 => prop::bool::weighted(0.8).prop_map(Happens::Source),
    ]
}

fn any_spec() -> impl Strategy<Value = TierSpec> {
    (0..4_usize, any::<bool>(), 1..4_usize, 1..1_001_u64).prop_map(
        |(min_readers, source, budget, enter)| TierSpec {
            min_readers,
            last_resort: if source {
                LastResort::Source
            } else {
                LastResort::LeastStale
            },
            changes_per_minute_max: budget,
            enter: Duration::from_millis(enter),
            ..spec()
        },
    )
}

fn happen(view: &mut FleetView, what: &Happens, ms: u64) {
    match *what {
        Happens::Stale(of, stale) => {
            view.servers[of].fresh_as_of = stale.map(|stale| at(ms.saturating_sub(stale)));
        }
        Happens::Usable(of, usable) => view.servers[of].usable = usable,
        Happens::Source(true) => view.source = Ok(ix(0)),
        Happens::Source(false) => view.source = Err(crate::fleet::SourceError::NoneWritable),
    }
}

fn check_members(view: &FleetView, spec: &TierSpec, members: &Members, now: Moment) {
    for server in &members.within {
        let server = view.server(*server);
        assert!(server.usable && server.role == Role::Replica && view.source.is_ok());
        let staleness = server.staleness(now).expect("a member's is known");
        assert!(staleness <= spec.max_staleness, "{staleness:?}");
    }
    for server in &members.last_resort {
        assert!(view.server(*server).usable && !members.within.contains(server));
    }
    let anybody = view.source().is_some()
        || view
            .servers
            .iter()
            .any(|server| server.usable && server.role == Role::Replica);
    let offered = members.within.len() + members.last_resort.len();
    assert!(!anybody || offered > 0, "somebody could take work");
}

/// At most k + 1 changes in every span of k dwell times that starts with one.
fn check_rate(changes: &[u64]) {
    for (first, start) in changes.iter().enumerate() {
        for (count, at) in changes[first..].iter().enumerate() {
            let spans = (at - start).div_ceil(DWELL_MS);
            assert!(count as u64 <= spans, "{changes:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn members_keep_the_bound_and_change_seldom(
        spec in any_spec(),
        steps in prop::collection::vec((1..1_500_u64, prop::collection::vec(happens(), 0..4)), 1..120),
    ) {
        let mut view = Lab::running(4, "A:1").view();
        let mut tier = Tier::new(spec.clone());
        let (mut ms, mut before) = (0, Vec::new());
        let mut changes = vec![Vec::new(); 4];
        let mut entries = Vec::new();
        for (wait, events) in steps {
            ms += wait;
            for event in &events {
                happen(&mut view, event, ms);
            }
            let members = tier.update(&view, at(ms));
            check_members(&view, &spec, &members, at(ms));
            for (server, changes) in changes.iter_mut().enumerate() {
                let is = members.within.contains(&ix(server));
                if is != before.contains(&ix(server)) {
                    changes.push(ms);
                    entries.extend(is.then_some(ms));
                }
            }
            before = members.within;
        }
        changes.iter().for_each(|changes| check_rate(changes));
        // The first three entries may be the first look's.
        for window in entries.iter().skip(3).collect::<Vec<_>>().windows(spec.changes_per_minute_max + 1) {
            prop_assert!(window[spec.changes_per_minute_max] - window[0] >= 60_000);
        }
    }

    /// Without news nothing changes before the deadline.
    #[test]
    fn the_deadline_is_never_late(
        spec in any_spec(),
        steps in prop::collection::vec((1..1_500_u64, prop::collection::vec(happens(), 0..4)), 1..60),
        looks in prop::collection::vec(0.0..1.0_f64, 1..4),
    ) {
        let mut view = Lab::running(4, "A:1").view();
        let mut tier = Tier::new(spec);
        let mut ms = 0;
        for (wait, events) in steps {
            ms += wait;
            for event in &events {
                happen(&mut view, event, ms);
            }
            let members = tier.update(&view, at(ms));
            let deadline = tier.deadline(&view, at(ms));
            let end = deadline.map_or(ms * 1_000 + 200_000_000, Moment::micros);
            prop_assert!(end > ms * 1_000);
            let mut quiet = tier.clone();
            let mut micros: Vec<u64> = looks
                .iter()
                .map(|share| ms * 1_000 + ((end - 1 - ms * 1_000) as f64 * share) as u64)
                .collect();
            micros.push(end - 1);
            micros.sort_unstable();
            for micros in micros {
                let found = quiet.update(&view, Moment::from_micros(micros));
                prop_assert_eq!(&found, &members, "{} before {}", micros, end);
            }
        }
    }
}
