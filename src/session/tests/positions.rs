//! Where a session's reads went, for as long as it matters.

use super::*;

fn seen(last: u32, before: Option<u32>, crowded: bool) -> Seen {
    Seen {
        last: Some(Life(last)),
        before: before.map(Life),
        crowded,
    }
}

#[test]
fn the_newest_read_s_server_is_remembered() {
    let sessions = table(LIMITS);
    assert_eq!(state(&sessions, 0).seen, Seen::default());
    let _kept = read(&sessions, 7, 0);
    let _kept = read(&sessions, 7, 100);
    assert_eq!(state(&sessions, 5_000).seen, seen(7, None, false));
}

#[test]
fn the_server_before_counts_until_a_decision_covers_all_its_reads() {
    let sessions = table(LIMITS);
    let _kept = read(&sessions, 7, 0);
    let _kept = read(&sessions, 8, 50);
    assert_eq!(state(&sessions, 60).seen, seen(8, Some(7), false));
    let _kept = read(&sessions, 8, 1_099);
    assert_eq!(
        state(&sessions, 1_100).seen,
        seen(8, Some(7), false),
        "it may just have started"
    );
    assert_eq!(
        state(&sessions, 9_000).seen,
        seen(8, Some(7), false),
        "time alone covers nothing"
    );
    let _kept = read(&sessions, 8, 9_000);
    assert_eq!(state(&sessions, 9_001).seen, seen(8, None, false));
}

#[test]
fn a_decision_on_older_knowledge_covers_nothing() {
    let sessions = table(LIMITS);
    let _kept = read(&sessions, 7, 0);
    let _kept = read(&sessions, 8, 50);
    let _kept = read_from(&sessions, 8, 1_000, 3_000);
    assert_eq!(state(&sessions, 3_001).seen, seen(8, Some(7), false));
    let ignorant = State {
        as_of: at(3_000),
        ..State::default()
    };
    let _kept = sessions.read(sessions.key("u"), Life(8), Some(&ignorant), at(3_000));
    assert_eq!(state(&sessions, 3_001).seen, seen(8, Some(7), false));
}

#[test]
fn a_third_server_is_a_crowd_until_a_decision_covers_it() {
    let sessions = table(LIMITS);
    for (life, ms) in [(7, 0), (8, 10), (9, 20)] {
        let _kept = read(&sessions, life, ms);
    }
    assert_eq!(state(&sessions, 30).seen, seen(9, Some(8), true));
    let _kept = read(&sessions, 9, 1_000);
    assert_eq!(state(&sessions, 1_001).seen, seen(9, Some(8), true));
    let _kept = read(&sessions, 9, 1_100);
    assert_eq!(state(&sessions, 1_101).seen, seen(9, None, false));
}

#[test]
fn going_back_and_forth_between_two_is_no_crowd() {
    let sessions = table(LIMITS);
    for (i, life) in [7, 8, 7, 8, 7].into_iter().enumerate() {
        let _kept = read(&sessions, life, i as u64 * 10);
    }
    assert_eq!(state(&sessions, 60).seen, seen(7, Some(8), false));
}

/// A degraded read goes back, so that where it went is no position: what came
/// before it still has to show.
#[test]
fn a_degraded_read_leaves_a_position_that_only_the_source_can_bound() {
    let sessions = table(LIMITS);
    let _kept = read(&sessions, 7, 0);
    let _kept = read(&sessions, Life::ANY.0, 5_000);
    assert_eq!(
        state(&sessions, 5_001).seen,
        seen(Life::ANY.0, Some(7), false)
    );
    let _kept = read(&sessions, Life::ANY.0, 9_000);
    assert_eq!(
        state(&sessions, 9_001).seen.before,
        Some(Life(7)),
        "it covers nothing"
    );
}

#[test]
fn reads_and_writes_share_a_slot() {
    let sessions = table(LIMITS);
    let _kept = wrote(&sessions, "A:5", 0);
    let _kept = read(&sessions, 7, 10);
    let known = state(&sessions, 20);
    assert_eq!(
        (known.requirement, known.seen.last),
        (need("A:5"), Some(Life(7)))
    );
    assert_eq!(sessions.len(), 1);
}
