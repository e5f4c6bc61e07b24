//! temp
mod support;
use causeway::gtid::Gtid;
use causeway::requirement::Requirement;
use causeway::route::*;
use causeway::session::*;
use std::hint::black_box;
use std::time::Duration;
use support::{fleet, random::Random, time};
fn main() {
    let now = causeway::clock::now();
    let limits = Limits {
        sessions_max: 2_000_000,
        ttl: Duration::from_secs(600),
        answer_ttl: Duration::from_secs(2),
    };
    let fl = fleet::fleet(
        8,
        &fleet::executed(5_000_000),
        &fleet::executed(10_000_000),
        now,
    );
    let view = arc_swap::ArcSwap::from_pointee(fl.view());
    let s = Sessions::new(limits, [7; 16]);
    let mut r = Random::new(1);
    for i in 0..1_000_000u64 {
        let k = s.key(&format!("session:{i:x}"));
        let gno = 5_000_001 + r.below(5_000_000);
        let _ = s.write(
            k,
            &Requirement::One(Gtid {
                sid: fleet::sid(),
                gno,
            }),
            fl.floor(),
            None,
            now,
        );
    }
    for round in 0..3 {
        let (mut a, mut b, mut c, mut d, mut e) = (
            time::Times::new(),
            time::Times::new(),
            time::Times::new(),
            time::Times::new(),
            time::Times::new(),
        );
        for _ in 0..500 {
            let names: Vec<String> = (0..512)
                .map(|_| format!("session:{:x}", r.below(1_000_000)))
                .collect();
            for n in &names {
                let t = time::now();
                let k = black_box(s.key(black_box(n)));
                a.add(t.elapsed());
                let t = time::now();
                let st = black_box(s.state(k, now));
                b.add(t.elapsed());
                let t = time::now();
                black_box(s.state(k, now));
                e.add(t.elapsed());
                let t = time::now();
                let ask = Ask {
                    session: Some(st),
                    deadline: now.plus(Duration::from_millis(50)),
                    hard_deadline: now.plus(Duration::from_millis(100)),
                    session_staleness_max: s.limits().staleness_max(),
                    seed: r.next(),
                    ..Ask::default()
                };
                let ask = black_box(ask);
                c.add(t.elapsed());
                let t = time::now();
                black_box(decide(&view.load(), &ask, now));
                d.add(t.elapsed());
            }
        }
        println!(
            "{round} key {:?} state cold {:?} state warm {:?} ask {:?} decide {:?}",
            a.p50(),
            b.p50(),
            e.p50(),
            c.p50(),
            d.p50()
        );
    }
}
