//! Deciding where a read may go, the look-up of its session included.
//!
//! `cargo bench --bench decide`. One operation is what a request costs in the
//! core: hash the session's key, look the session up among a million, decide
//! over the newest snapshot. Sessions are asked for in random order, so that
//! their memory is cold, as it is in life: one cache miss is the least that a
//! look-up costs, and what one costs here is printed first. Every operation is
//! timed by itself; the two clock readings around it are part of its time.

mod support;

use std::hint::black_box;
use std::time::Duration;

use arc_swap::ArcSwap;
use causeway::clock;
use causeway::fleet::{FleetView, Life, ServerIx};
use causeway::gtid::{Gtid, GtidSet, Sid};
use causeway::moment::Moment;
use causeway::requirement::Requirement;
use causeway::route::{Ask, Consistency, Policy, Step, decide};
use causeway::session::{Limits, Sessions};
use criterion::{Criterion, criterion_group, criterion_main};
use support::{Mode, fleet, judge, random::Random, say, time};

const SETTLED: u64 = 5_000_000;
const EXECUTED: u64 = 10_000_000;
const LIMIT_8: Duration = Duration::from_nanos(300);
const LIMIT_1000: Duration = Duration::from_micros(5);
/// Names made at once, outside of the time taken.
const BATCH: u64 = 512;

/// What the sessions did before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum History {
    Wrote,
    WroteAndRead,
}

/// Everything a decision reads.
struct World {
    sessions: Sessions,
    view: ArcSwap<FleetView>,
    count: u64,
    now: Moment,
}

impl World {
    fn new(replicas: u16, count: u64, history: History) -> Self {
        let now = clock::now();
        let (before, after) = (fleet::executed(SETTLED), fleet::executed(EXECUTED));
        let fleet = fleet::fleet(replicas, &before, &after, now);
        let limits = Limits {
            sessions_max: 2_000_000,
            ttl: Duration::from_secs(600),
            answer_ttl: Duration::from_secs(2),
        };
        let (sessions, view) = (Sessions::new(limits, [7; 16]), fleet.view());
        let mut random = Random::new(1);
        for number in 0..count {
            let key = sessions.key(&name(number));
            let gno = SETTLED + 1 + random.below(EXECUTED - SETTLED);
            let wrote = Requirement::One(Gtid {
                sid: fleet::sid(),
                gno,
            });
            let _kept = sessions.write(key, &wrote, fleet.floor(), None, now);
            if history == History::WroteAndRead {
                let on = 1 + random.below(u64::from(replicas));
                let _kept = sessions.read(key, life(&view, on), None, now);
            }
        }
        assert_eq!(sessions.len() as u64, count, "all are remembered");
        Self {
            sessions,
            view: ArcSwap::from_pointee(view),
            count,
            now,
        }
    }

    /// The answer to one read.
    fn route(&self, session: Option<&str>, token: &Requirement, seed: u64) -> Step {
        let ask = Ask {
            policy: Policy {
                consistency: Consistency::Session,
                ..Policy::default()
            },
            session: session
                .map(|session| self.sessions.state(self.sessions.key(session), self.now)),
            token: token.clone(),
            deadline: self.now.plus(Duration::from_millis(50)),
            hard_deadline: self.now.plus(Duration::from_millis(100)),
            session_staleness_max: self.sessions.staleness_max(),
            seed,
            ..Ask::default()
        };
        decide(&self.view.load(), &ask, self.now)
    }

    /// Routes `n` reads of random sessions, each timed by itself.
    fn sessions(&self, n: u64, random: &mut Random, times: &mut time::Times) -> Duration {
        self.timed(n, random, times, |name, seed| {
            self.route(Some(name), &Requirement::Nothing, seed)
        })
    }

    fn timed(
        &self,
        n: u64,
        random: &mut Random,
        times: &mut time::Times,
        route: impl Fn(&str, u64) -> Step,
    ) -> Duration {
        let (mut total, mut left) = (Duration::ZERO, n);
        while left > 0 {
            let names: Vec<String> = (0..left.min(BATCH))
                .map(|_| name(random.below(self.count)))
                .collect();
            left -= names.len() as u64;
            for name in &names {
                let seed = random.next();
                let start = time::now();
                let step = black_box(route(black_box(name), seed));
                let took = start.elapsed();
                assert!(
                    matches!(step, Step::Answer(ref answer) if answer.server != ServerIx(0)),
                    "{step:?}"
                );
                times.add(took);
                total += took;
            }
        }
        total
    }
}

fn name(number: u64) -> String {
    format!("session:{number:x}")
}

fn life(view: &FleetView, server: u64) -> Life {
    let at = usize::try_from(server).expect("a small number");
    view.servers[at].life
}

/// A requirement that fits no simple form, and that every server meets: three
/// UUIDs, twenty intervals.
fn scattered() -> Requirement {
    let mut set = GtidSet::default();
    for n in 0..18 {
        set.insert_range(fleet::sid(), SETTLED + 10 * n, SETTLED + 10 * n + 3);
    }
    for other in 1..3 {
        set.insert(Gtid {
            sid: Sid::from(fleet::uuid(other)),
            gno: 5,
        });
    }
    Requirement::of(set)
}

fn measure(
    c: &mut Criterion,
    name: &str,
    limit: Option<Duration>,
    mut run: impl FnMut(u64, &mut time::Times) -> Duration,
) {
    let mut times = time::Times::new();
    c.bench_function(name, |b| b.iter_custom(|n| run(n, &mut times)));
    if times.len() < 1000 {
        return;
    }
    let figures = format!("p50 {:?} p99 {:?}", times.p50(), times.p99());
    match limit {
        Some(limit) => judge(
            name,
            times.p50() <= limit,
            figures,
            format!("p50 {limit:?}"),
        ),
        None => say(name, figures),
    }
}

fn sessions(c: &mut Criterion) {
    let count = mode().pick(1_000_000, 10_000);
    say(
        "decide/two clock readings",
        format!("{:?}", time::clock_cost()),
    );
    say(
        "decide/one cache miss, likewise timed",
        format!("p50 {:?}", cache_miss()),
    );
    for (replicas, limit) in [(8, LIMIT_8), (1000, LIMIT_1000)] {
        for (history, label) in [
            (History::Wrote, "wrote"),
            (History::WroteAndRead, "wrote and read"),
        ] {
            let world = World::new(replicas, count, history);
            let mut random = Random::new(2);
            let name = format!("decide/{replicas} replicas/{label}");
            measure(c, &name, Some(limit), |n, times| {
                world.sessions(n, &mut random, times)
            });
        }
    }
}

fn tokens(c: &mut Criterion) {
    let token = scattered();
    for (replicas, limit) in [(8, LIMIT_8), (1000, LIMIT_1000)] {
        let world = World::new(replicas, mode().pick(1_000_000, 10_000), History::Wrote);
        let mut random = Random::new(3);
        let name = format!("decide/{replicas} replicas/wrote, token of 20 intervals");
        let limit = (replicas == 8).then_some(limit);
        measure(c, &name, limit, |n, times| {
            world.timed(n, &mut random, times, |name, seed| {
                world.route(Some(name), &token, seed)
            })
        });
    }
}

/// One read from a random place of as much memory as a million sessions take.
fn cache_miss() -> Duration {
    let places = 64 * mode().pick(1_400_000, 10_000);
    let memory: Vec<u64> = (0..places / 8).collect();
    let (mut random, mut times) = (Random::new(5), time::Times::new());
    for _ in 0..100_000 {
        let at = random.below(places / 8) as usize;
        let start = time::now();
        black_box(memory[black_box(at)]);
        times.add(start.elapsed());
    }
    times.p50()
}

fn mode() -> Mode {
    Mode::of("").unwrap_or(Mode::Test)
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    targets = sessions, tokens
}
criterion_main!(benches);
