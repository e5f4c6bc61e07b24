//! **The promises, checked over simulated replication.**
//!
//! One source and some replicas on a made-up clock: commits, delayed and
//! out-of-order applying, rows that show before their GTID is listed (also on a
//! replica before the source), stalls, resets, lost connections, answers that
//! arrive late and out of order. Many sessions write and read through the real
//! fleet, session table and decision. An oracle that sees the truth checks every
//! answer that is not marked as degraded.
//!
//! A failing seed is enough to see a failure again.

mod network;
mod oracle;
mod traffic;

use std::collections::BTreeMap;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::fleet::testing::Lab;
use crate::gtid::GtidSet;
use crate::moment::Moment;
use crate::session::{Limits, Sessions};
use network::Node;
use oracle::Tally;
use traffic::{App, Request};

/// How one run differs from another.
#[derive(Clone, Copy, Debug)]
struct Setting {
    replicas: usize,
    apps: usize,
    sessions_max: usize,
    seconds: u64,
    flaw: Option<Flaw>,
}

/// A deliberate mistake of the observer, which the oracle has to notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// A fence is answered with what was learned before the request.
    OldFence,
    /// A replica's earlier reads are bounded by its executed set alone.
    LocateWithoutOwned,
    /// What a server is about to commit passes for executed (binlog events).
    EventsAsEvidence,
    /// The largest number passes for all numbers.
    LargestNumber,
}

const LIMITS: Limits = Limits {
    sessions_max: 0,
    ttl: Duration::from_secs(3),
    answer_ttl: Duration::from_millis(300),
};

struct Simulation {
    setting: Setting,
    random: StdRng,
    /// Microseconds.
    now: u64,
    agenda: BTreeMap<(u64, u64), Happening>,
    happenings: u64,
    lab: Lab,
    sessions: Sessions,
    nodes: Vec<Node>,
    apps: Vec<App>,
    requests: BTreeMap<u64, Request>,
    /// When the source listed a transaction as executed; from number 1.
    executed_at: BTreeMap<u64, u64>,
    written: u64,
    /// Commits under way, and whose they are.
    writing: Vec<(u64, usize)>,
    /// Commits that returned to whoever made them.
    committed: GtidSet,
    /// Shown by any read that has ended.
    shown_to_anyone: GtidSet,
    last_probe: Option<(GtidSet, GtidSet)>,
    tally: Tally,
}

#[derive(Clone, Debug)]
enum Happening {
    Network(network::Change),
    Traffic(traffic::Act),
}

impl Simulation {
    fn new(seed: u64, setting: Setting) -> Self {
        let servers = setting.replicas + 1;
        let limits = Limits {
            sessions_max: setting.sessions_max,
            ..LIMITS
        };
        let mut simulation = Self {
            random: StdRng::seed_from_u64(seed),
            now: 1_000_000,
            agenda: BTreeMap::new(),
            happenings: 0,
            lab: Lab::unknown(servers),
            sessions: Sessions::new(limits, [7; 16]),
            nodes: (0..servers).map(|_| Node::default()).collect(),
            apps: (0..setting.apps).map(|_| App::default()).collect(),
            requests: BTreeMap::new(),
            executed_at: BTreeMap::new(),
            written: 0,
            writing: Vec::new(),
            committed: GtidSet::default(),
            shown_to_anyone: GtidSet::default(),
            last_probe: None,
            tally: Tally::default(),
            setting,
        };
        simulation.begin_network();
        simulation.begin_traffic();
        simulation
    }

    fn run(seed: u64, setting: Setting) -> Tally {
        let mut simulation = Self::new(seed, setting);
        let end = simulation.now + setting.seconds * 1_000_000;
        while let Some(((when, _), happening)) = simulation.agenda.pop_first() {
            if when > end {
                break;
            }
            simulation.now = when;
            match happening {
                Happening::Network(change) => simulation.network(change),
                Happening::Traffic(act) => simulation.traffic(act),
            }
        }
        simulation.tally
    }

    fn later(&mut self, micros: u64, happening: Happening) {
        self.happenings += 1;
        self.agenda
            .insert((self.now + micros, self.happenings), happening);
    }

    fn moment(&self) -> Moment {
        Moment::from_micros(self.now)
    }

    fn chance(&mut self, of: f64) -> bool {
        self.random.random_bool(of)
    }

    fn between(&mut self, low: u64, high: u64) -> u64 {
        self.random.random_range(low..=high)
    }

    /// Mostly short, now and then long: the shape of real delays.
    fn delay(&mut self, usual: u64, rare: u64) -> u64 {
        if self.chance(0.04) {
            self.between(usual, rare)
        } else {
            self.between(0, usual)
        }
    }
}

const BUSY: Setting = Setting {
    replicas: 3,
    apps: 14,
    sessions_max: 1000,
    seconds: 12,
    flaw: None,
};

fn check(seeds: std::ops::Range<u64>, setting: Setting) -> Tally {
    let mut total = Tally::default();
    for seed in seeds {
        let tally = Simulation::run(seed, setting);
        assert!(
            tally.violations.is_empty(),
            "seed {seed} of {setting:?}: {:#?}",
            &tally.violations[..tally.violations.len().min(3)]
        );
        total.add(&tally);
    }
    total
}

#[test]
fn every_promise_holds_over_busy_replication() {
    let total = check(0..9, BUSY);
    assert!(total.checked > 10_000, "{total:?}");
    assert!(total.on_replicas * 3 > total.checked, "{total:?}");
    assert!(
        total.waited > 500 && total.located > 500 && total.fenced > 500,
        "{total:?}"
    );
    assert!(total.resets > 5 && total.losses > 100, "{total:?}");
    assert!(total.settled > 100 && total.expired > 0, "{total:?}");
}

#[test]
fn every_promise_holds_when_the_session_table_is_full() {
    let setting = Setting {
        sessions_max: 5,
        ..BUSY
    };
    let total = check(100..104, setting);
    assert!(total.dropped > 300 && total.checked > 2000, "{total:?}");
}

#[test]
fn every_promise_holds_with_one_replica_and_with_many() {
    for (replicas, seeds) in [(1, 200..203), (5, 300..302)] {
        let total = check(seeds, Setting { replicas, ..BUSY });
        assert!(total.checked > 3000, "{total:?}");
    }
}

#[test]
#[ignore = "takes minutes: for changes to the core (`cargo test --release -- --ignored`)"]
fn every_promise_holds_over_very_many_runs() {
    for (replicas, sessions_max) in [(1, 1000), (2, 1000), (3, 6), (4, 1000)] {
        let setting = Setting {
            replicas,
            sessions_max,
            ..BUSY
        };
        let total = check(1000..1150, setting);
        assert!(total.checked > 50_000, "{total:?}");
    }
}

/// The oracle is worth something only if it notices a mistake.
#[test]
fn the_oracle_notices_planted_mistakes() {
    for flaw in [
        Flaw::OldFence,
        Flaw::LocateWithoutOwned,
        Flaw::EventsAsEvidence,
        Flaw::LargestNumber,
    ] {
        let setting = Setting {
            flaw: Some(flaw),
            ..BUSY
        };
        let noticed = (0..40).any(|seed| !Simulation::run(seed, setting).violations.is_empty());
        assert!(noticed, "{flaw:?}");
    }
}
