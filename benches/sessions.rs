//! What an unsettled session costs in memory.
//!
//! `cargo bench --bench sessions`. Two measures: what the table asked the
//! allocator for (a counting allocator around the system's), and by how much
//! the process grew (`/proc/self/statm`), which has the allocator's own cost in
//! it. The worst moment is right after the table's shards have grown.

mod support;

use std::alloc::System;
use std::time::Duration;

use causeway::clock;
use causeway::fleet::{Floor, Life};
use causeway::gtid::Gtid;
use causeway::requirement::Requirement;
use causeway::session::{Limits, Sessions};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use support::process::resident;
use support::random::Random;
use support::{Mode, fleet, judge};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const LIMIT: f64 = 120.0;

/// What every session did.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Did {
    Wrote,
    WroteAndRead,
    WroteTwice,
    WroteFourTimes,
}

impl Did {
    const ALL: [(Self, &str); 4] = [
        (Self::Wrote, "one write"),
        (Self::WroteAndRead, "a write and a read"),
        (Self::WroteTwice, "two writes"),
        (Self::WroteFourTimes, "four writes"),
    ];

    fn writes(self) -> u64 {
        match self {
            Self::Wrote | Self::WroteAndRead => 1,
            Self::WroteTwice => 2,
            Self::WroteFourTimes => 4,
        }
    }
}

fn main() {
    let Some(mode) = Mode::of("sessions") else {
        return;
    };
    // 7.4 million sessions are where the shards have just doubled.
    let counts = mode.pick(vec![1_000_000, 7_400_000, 10_000_000], vec![10_000]);
    for (did, label) in Did::ALL {
        for &count in &counts {
            cost(count, did, label);
        }
    }
}

fn cost(count: u64, did: Did, label: &str) {
    let (asked, grew) = (allocated(), resident());
    let table = Sessions::new(limits(count), [3; 16]);
    let mut random = Random::new(4);
    for number in 0..count {
        session(
            &table,
            &format!("session:{number:x}"),
            did,
            &mut random,
            number,
        );
    }
    assert_eq!(table.len() as u64, count, "all are remembered");
    let per = |bytes: u64| bytes as f64 / count as f64;
    let asked = per(allocated().saturating_sub(asked));
    let grew = per(resident().saturating_sub(grew));
    let name = format!("sessions/{:.1} million/{label}", count as f64 / 1e6);
    let figures = format!("{asked:.0} bytes per session allocated, {grew:.0} resident");
    judge(&name, asked <= LIMIT, figures, "120 bytes");
}

/// Commits go on between a session's writes, so that they are not neighbours.
fn session(table: &Sessions, name: &str, did: Did, random: &mut Random, number: u64) {
    let (key, now) = (table.key(name), clock::now());
    let mut gno = 10 * number + 1;
    for _ in 0..did.writes() {
        let wrote = Requirement::One(Gtid {
            sid: fleet::sid(),
            gno,
        });
        let _kept = table.write(key, &wrote, &Floor::default(), None, now);
        gno += 2 + random.below(1000);
    }
    if did == Did::WroteAndRead {
        let _kept = table.read(key, Life(1 + (number % 8) as u32), None, now);
    }
}

fn limits(count: u64) -> Limits {
    Limits {
        sessions_max: usize::try_from(2 * count).expect("64 bits"),
        ttl: Duration::from_secs(600),
        answer_ttl: Duration::from_secs(2),
    }
}

fn allocated() -> u64 {
    let stats = ALLOCATOR.stats();
    (stats.bytes_allocated - stats.bytes_deallocated) as u64
}
