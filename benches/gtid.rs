//! GTID sets against the structures one might use instead.
//!
//! `cargo bench --bench gtid`. Every alternative runs in the same process on
//! the same numbers; a set of N gaps is every third number.

use std::collections::{BTreeMap, HashSet};
use std::hint::black_box;
use std::time::Duration;

use causeway::gtid::{Gtid, GtidSet, Limits, Sid};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

const UUID: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

fn sid() -> Sid {
    Sid::from(UUID.parse::<causeway::gtid::Uuid>().expect("a UUID"))
}

/// Two of every three numbers: `intervals` intervals of length two.
fn gapped(intervals: u64) -> GtidSet {
    let mut set = GtidSet::default();
    for n in 0..intervals {
        set.insert_range(sid(), 3 * n + 1, 3 * n + 2);
    }
    set
}

/// Numbers spread over the whole set by a fixed odd stride, hits and misses.
fn probes(intervals: u64) -> Vec<u64> {
    let top = 3 * intervals;
    (0..1024).map(|n| n * 0x9E37_79B9 % top + 1).collect()
}

fn contains(c: &mut Criterion) {
    let mut group = c.benchmark_group("contains");
    for intervals in [1, 1_000, 100_000] {
        let set = gapped(intervals);
        let spans: Vec<_> = set.intervals(&sid()).expect("some").iter().collect();
        let hashed: HashSet<u64> = spans.iter().flat_map(|&(s, e)| s..=e).collect();
        let tree: BTreeMap<u64, u64> = spans.iter().copied().collect();
        let probes = probes(intervals);
        let mut at = 0;
        let mut next = move || {
            at = (at + 1) % probes.len();
            probes[at]
        };
        let mut measure = |name: &str, ask: &dyn Fn(u64) -> bool| {
            let id = BenchmarkId::new(name, intervals);
            group.bench_function(id, |b| b.iter(|| ask(black_box(next()))));
        };
        let sid = sid();
        measure("GtidSet", &|gno| set.contains(&Gtid { sid, gno }));
        measure("HashSet", &|gno| hashed.contains(&gno));
        measure("BTreeMap", &|gno| {
            tree.range(..=gno)
                .next_back()
                .is_some_and(|span| gno <= *span.1)
        });
        measure("linear scan", &|gno| {
            spans.iter().any(|span| span.0 <= gno && gno <= span.1)
        });
    }
    group.finish();
}

fn contains_set(c: &mut Criterion) {
    let mut group = c.benchmark_group("contains_set");
    for intervals in [1, 1_000, 100_000] {
        let server = gapped(intervals);
        let token = GtidSet::from(Gtid {
            sid: sid(),
            gno: 3 * intervals - 1,
        });
        let same: GtidSet = server.to_string().parse().expect("a set");
        group.bench_function(BenchmarkId::new("token in server", intervals), |b| {
            b.iter(|| black_box(&server).contains_set(black_box(&token)));
        });
        group.bench_function(BenchmarkId::new("server in server", intervals), |b| {
            b.iter(|| black_box(&server).contains_set(black_box(&same)));
        });
    }
    group.finish();
}

fn text(c: &mut Criterion) {
    let mut group = c.benchmark_group("text");
    for intervals in [1, 1_000, 100_000] {
        let set = gapped(intervals);
        let text = set.to_string();
        group.bench_function(BenchmarkId::new("parse", intervals), |b| {
            b.iter(|| GtidSet::parse(black_box(&text), Limits::SERVER));
        });
        group.bench_function(BenchmarkId::new("print", intervals), |b| {
            b.iter(|| black_box(&set).to_string());
        });
    }
    group.finish();
}

fn combine(c: &mut Criterion) {
    let mut group = c.benchmark_group("combine");
    for intervals in [1, 1_000, 100_000] {
        let server = gapped(intervals);
        let ahead = GtidSet::from(Gtid {
            sid: sid(),
            gno: 3 * intervals,
        });
        let shifted: GtidSet = (0..intervals)
            .map(|n| Gtid {
                sid: sid(),
                gno: 6 * n + 3,
            })
            .collect();
        let mut bench = |name: &str, run: &dyn Fn() -> GtidSet| {
            group.bench_function(BenchmarkId::new(name, intervals), |b| b.iter(run));
        };
        bench("clone", &|| black_box(&server).clone());
        bench("union with one more", &|| server.union(black_box(&ahead)));
        bench("union of two", &|| server.union(black_box(&shifted)));
        bench("one minus server", &|| ahead.subtract(black_box(&server)));
        bench("server minus other", &|| {
            server.subtract(black_box(&shifted))
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = contains, contains_set, text, combine
}
criterion_main!(benches);
