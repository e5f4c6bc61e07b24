//! A write that was stored is never lost, whatever happens beside it.

use super::*;
use crate::fleet::testing::sid;
use crate::gtid::Gtid;

const THREADS: u64 = 4;
const WRITES: u64 = 3_000;
const KEYS: u64 = 97;

fn up_to(gno: u64) -> Floor {
    let mut set = GtidSet::default();
    set.insert_range(sid(0), 1, gno);
    Floor {
        set: Arc::new(set),
        as_of: None,
    }
}

#[test]
fn no_stored_write_is_lost_under_concurrent_writing_and_sweeping() {
    let sessions = table(LIMITS);
    let next = AtomicU64::new(1);
    let floor = Mutex::new(up_to(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (sessions, next, floor) = (&sessions, &next, &floor);
            scope.spawn(move || write_and_look(sessions, next, floor, thread));
        }
        scope.spawn(|| {
            while next.load(Ordering::Relaxed) < THREADS * WRITES {
                let raised = up_to(next.load(Ordering::Relaxed).saturating_sub(50));
                *floor.lock() = raised.clone();
                sweep(&sessions, &raised, 1);
            }
        });
    });
    sweep(&sessions, &up_to(THREADS * WRITES * 2), 1);
    assert_eq!(sessions.len(), 0, "the count of slots adds up");
}

/// Several threads write in the same sessions; each looks for its own write.
fn write_and_look(sessions: &Sessions, next: &AtomicU64, floor: &Mutex<Floor>, thread: u64) {
    for i in 0..WRITES {
        let gno = next.fetch_add(1, Ordering::Relaxed);
        let key = sessions.key(&((i * 7 + thread) % KEYS).to_string());
        let one = Gtid { sid: sid(0), gno };
        let seen_floor = floor.lock().clone();
        let kept = sessions.write(key, &Requirement::One(one), &seen_floor, None, at(0));
        if kept == Kept::Dropped {
            assert!(sessions.state(key, at(1)).dropped);
            continue;
        }
        let found = sessions
            .state(key, at(1))
            .requirement
            .to_set()
            .contains(&one);
        // The floor is read after the slot: that is the order of a request.
        assert!(found || floor.lock().set.contains(&one), "{gno} is lost");
    }
}
