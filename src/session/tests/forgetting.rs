//! Forgetting is safe: settled, expired, dropped, at the owner's wish.

use super::*;

#[test]
fn a_write_inside_the_floor_is_settled() {
    for (text, covered, settled) in [
        ("A:5", "A:1-5", true),
        ("A:5", "A:1-4:6-9", false),
        ("A:1-9", "A:1-8", false),
        ("A:1-9", "A:1-9", true),
        ("A:5:9", "A:1-8", false),
        ("A:5:9", "A:1-9", true),
    ] {
        let sessions = table(LIMITS);
        let _kept = wrote(&sessions, text, 0);
        sweep(&sessions, &floor(covered, None), 1);
        assert_eq!(sessions.is_empty(), settled, "{text} under {covered}");
        let counted = sessions.counters().settled.load(Ordering::Relaxed);
        assert_eq!(counted, u64::from(settled));
        let left = if settled {
            Requirement::Nothing
        } else {
            need(text)
        };
        assert_eq!(
            state(&sessions, 2).requirement,
            left,
            "{text} under {covered}"
        );
    }
}

/// A read counts as started `answer_ttl` after the end of its tick.
#[test]
fn a_session_that_read_is_settled_only_when_its_reads_have_started() {
    for (as_of, settled) in [(None, false), (Some(1499), false), (Some(1500), true)] {
        let sessions = table(LIMITS);
        let _kept = read(&sessions, 7, 450);
        sweep(&sessions, &floor("A:1-5", as_of), 2000);
        assert_eq!(sessions.is_empty(), settled, "{as_of:?}");
    }
}

#[test]
fn a_later_read_puts_settling_off_even_when_threads_overtake_each_other() {
    let sessions = table(LIMITS);
    let _kept = read(&sessions, 7, 450);
    let _kept = read(&sessions, 7, 350);
    sweep(&sessions, &floor("A:1-5", Some(1400)), 2000);
    assert_eq!(sessions.len(), 1);
}

#[test]
fn a_session_expires_after_its_time_and_not_before() {
    let sessions = table(LIMITS);
    let _kept = wrote(&sessions, "A:5", 450);
    assert_eq!(state(&sessions, 10_499).requirement, need("A:5"));
    sweep(&sessions, &Floor::default(), 10_499);
    assert_eq!(sessions.len(), 1);
    assert_eq!(state(&sessions, 10_500).requirement, Requirement::Nothing);
    sweep(&sessions, &Floor::default(), 10_500);
    assert!(sessions.is_empty());
    assert_eq!(sessions.counters().expired.load(Ordering::Relaxed), 1);
}

#[test]
fn reads_and_writes_prolong_a_session() {
    let sessions = table(LIMITS);
    let _kept = wrote(&sessions, "A:5", 0);
    let _kept = read(&sessions, 7, 9_000);
    assert_eq!(state(&sessions, 18_000).requirement, need("A:5"));
    let _kept = wrote(&sessions, "A:6", 18_000);
    assert_eq!(state(&sessions, 27_000).seen.last, Some(Life(7)));
}

/// The rule that makes expiry safe, at the worst moments of a tick.
#[test]
fn a_replica_fresh_enough_for_sessions_has_all_that_an_expired_one_could_ask_for() {
    for ms in [0, 1, 50, 99, 100, 101] {
        let sessions = table(LIMITS);
        let _kept = wrote(&sessions, "A:5", ms);
        let gone = (ms..).find(|now| state(&sessions, *now).requirement.is_nothing());
        let oldest_replica = at(gone.expect("it expires")).minus(LIMITS.staleness_max());
        let reads_started = at(ms).plus(LIMITS.answer_ttl);
        let shows_before_listed = LIMITS.ttl / 10;
        assert!(
            oldest_replica >= reads_started.plus(shows_before_listed),
            "{ms}"
        );
    }
}

#[test]
fn a_time_to_live_too_short_lets_no_replica_serve_sessions() {
    let limits = Limits {
        ttl: Duration::from_secs(1),
        ..LIMITS
    };
    assert_eq!(limits.staleness_max(), Duration::ZERO);
}

#[test]
fn with_no_room_left_a_session_reads_from_the_source_until_its_time_has_passed() {
    let sessions = table(Limits {
        sessions_max: 1,
        ..LIMITS
    });
    let other = sessions.key("first");
    assert_eq!(
        sessions.write(other, &need("A:1"), &Floor::default(), None, at(0)),
        Kept::Stored
    );
    assert_eq!(wrote(&sessions, "A:5", 450), Kept::Dropped);
    assert_eq!(sessions.counters().dropped.load(Ordering::Relaxed), 1);
    assert!(state(&sessions, 451).dropped && state(&sessions, 10_499).dropped);
    assert!(!state(&sessions, 10_500).dropped);
    assert!(!sessions.state(other, at(451)).dropped, "another bucket");
    assert_eq!(sessions.len(), 1);
}

#[test]
fn a_session_that_has_its_slot_keeps_writing_in_a_full_table() {
    let sessions = table(Limits {
        sessions_max: 1,
        ..LIMITS
    });
    assert_eq!(wrote(&sessions, "A:5", 0), Kept::Stored);
    assert_eq!(wrote(&sessions, "A:9", 1), Kept::Stored);
    assert_eq!(read(&sessions, 7, 2), Kept::Stored);
    assert!(!state(&sessions, 3).dropped);
}

#[test]
fn a_read_with_no_room_left_drops_its_session() {
    let sessions = table(Limits {
        sessions_max: 0,
        ..LIMITS
    });
    assert_eq!(read(&sessions, 7, 0), Kept::Dropped);
    assert!(state(&sessions, 1).dropped);
}

#[test]
fn those_who_share_the_bucket_of_a_dropped_session_are_dropped_with_it() {
    let sessions = table(LIMITS);
    let key = |high: u128, low: u128| Key(high << 96 | low);
    let _kept = sessions.drop_session(key(5, 1), at(0));
    assert!(sessions.state(key(5, 2), at(1)).dropped);
    assert!(sessions.state(key(5 + (1 << 16), 2), at(1)).dropped);
    assert!(!sessions.state(key(6, 1), at(1)).dropped);
}

#[test]
fn a_later_drop_never_shortens_an_earlier_one() {
    let sessions = table(LIMITS);
    let key = sessions.key("u");
    let _kept = sessions.drop_session(key, at(5_000));
    let _kept = sessions.drop_session(key, at(1_000));
    assert!(state(&sessions, 15_000).dropped);
}

#[test]
fn the_owner_may_forget_a_session() {
    let sessions = table(LIMITS);
    let _kept = wrote(&sessions, "A:5:9", 0);
    assert!(sessions.forget(sessions.key("u")));
    assert!(!sessions.forget(sessions.key("u")));
    assert!(sessions.is_empty() && state(&sessions, 1).requirement.is_nothing());
}

#[test]
fn a_slot_costs_64_bytes_and_a_dead_table_gives_its_memory_back() {
    assert_eq!(size_of::<slot::Slot>(), 64);
    let sessions = table(Limits {
        sessions_max: 1 << 20,
        ..LIMITS
    });
    for i in 0..100_000 {
        let key = sessions.key(&i.to_string());
        let _kept = sessions.write(key, &need("A:5"), &Floor::default(), None, at(0));
    }
    assert_eq!(sessions.len(), 100_000);
    sweep(&sessions, &floor("A:1-5", None), 1);
    assert!(sessions.is_empty());
}
