//! What a session wrote is required, exactly or by a superset.

use super::*;
use crate::fleet::testing::sid;
use crate::gtid::Gtid;

#[test]
fn a_write_is_found_again() {
    let sessions = table(LIMITS);
    assert_eq!(wrote(&sessions, "A:5", 0), Kept::Stored);
    assert_eq!(state(&sessions, 1).requirement, need("A:5"));
    let other = sessions.state(sessions.key("v"), at(1));
    assert_eq!(
        other,
        State {
            as_of: at(1),
            ..State::default()
        }
    );
    assert_eq!(sessions.len(), 1);
}

#[test]
fn writes_add_up_until_they_are_settled() {
    let cases: [(&[&str], &str, Requirement); 6] = [
        (&["A:5", "A:5"], "", need("A:5")),
        (&["A:5", "A:6"], "", need("A:5-6")),
        (&["A:5", "A:9", "B:2"], "", need("A:5:9,B:2")),
        (&["A:1-5", "A:6"], "", need("A:1-6")),
        (&["A:5", "A:9"], "A:1-6", need("A:9")),
        (&["A:5:9", "B:1"], "A:1-6", need("A:5:9,B:1")),
    ];
    for (writes, covered, expected) in cases {
        let sessions = table(LIMITS);
        let key = sessions.key("u");
        for (i, text) in writes.iter().enumerate() {
            // The floor rises after the first write.
            let floor = floor(if i == 0 { "" } else { covered }, None);
            let kept = sessions.write(key, &need(text), &floor, None, at(0));
            assert_eq!(kept, Kept::Stored);
        }
        assert_eq!(
            state(&sessions, 1).requirement,
            expected,
            "{writes:?} above {covered}"
        );
    }
}

#[test]
fn a_prefix_costs_a_slot_and_no_set() {
    let sessions = table(LIMITS);
    let above = Requirement::above(&set("A:1-9"), &set("A:1-7"));
    let up_to = Requirement::UpTo {
        sid: sid(0),
        gno: 9,
    };
    assert_eq!(above, up_to);
    let kept = sessions.write(
        sessions.key("u"),
        &above,
        &floor("A:1-7", None),
        None,
        at(0),
    );
    assert_eq!(
        (kept, state(&sessions, 1).requirement),
        (Kept::Stored, up_to)
    );
}

#[test]
fn what_is_asked_for_above_a_floor_is_the_whole_with_it() {
    for (whole, covered) in [
        ("A:1-9", "A:1-7"),
        ("A:1-9", ""),
        ("A:5:7", "A:1-6"),
        ("A:1-5:7", "A:1-5"),
        ("A:1-9,B:1-2", "A:1-9"),
        ("A:1-9,B:4", "A:1-3"),
        ("A:3", "A:1-9"),
    ] {
        let above = Requirement::above(&set(whole), &set(covered)).to_set();
        assert!(
            above.union(&set(covered)).contains_set(&set(whole)),
            "{whole} above {covered}"
        );
        assert!(set(whole).contains_set(&above), "{whole} above {covered}");
    }
}

/// Sixteen scattered writes are kept as they are; one more asks for all that the
/// source has, which any replica reaches.
#[test]
fn very_many_scattered_writes_are_coarsened_to_a_superset_that_can_be_met() {
    let sessions = table(LIMITS);
    let key = sessions.key("u");
    let source = set("A:1-100");
    let mut all = GtidSet::default();
    for gno in (2..=34).step_by(2) {
        let one = Gtid { sid: sid(0), gno };
        all.insert(one);
        let kept = sessions.write(
            key,
            &Requirement::One(one),
            &Floor::default(),
            Some(&source),
            at(0),
        );
        assert_eq!(kept, Kept::Stored);
        let kept_set = state(&sessions, 1).requirement.to_set();
        assert!(kept_set.contains_set(&all));
        match all.interval_count() {
            ..=16 => assert_eq!(kept_set, all, "exact"),
            _ => assert_eq!(kept_set, source, "coarse, and satisfiable"),
        }
    }
}

#[test]
fn without_a_source_scattered_writes_stay_exact_up_to_the_hard_limit() {
    let sessions = table(LIMITS);
    let key = sessions.key("u");
    let scattered = |count: u64| -> GtidSet {
        (1..=count)
            .map(|i| Gtid {
                sid: sid(0),
                gno: i * 2,
            })
            .collect()
    };
    let write = |set| sessions.write(key, &Requirement::of(set), &Floor::default(), None, at(0));
    assert_eq!(write(scattered(1024)), Kept::Stored);
    assert_eq!(state(&sessions, 1).requirement.to_set(), scattered(1024));
    assert_eq!(write(scattered(1025)), Kept::Dropped);
    assert!(state(&sessions, 1).dropped);
}

#[test]
fn more_uuid_and_tag_pairs_than_are_numbered_are_still_exact() {
    let sessions = table(Limits {
        sessions_max: 5000,
        ..LIMITS
    });
    let one = |i: u128| {
        let uuid = crate::gtid::Uuid::from_bytes(i.to_be_bytes());
        Requirement::One(Gtid {
            sid: uuid.into(),
            gno: 7,
        })
    };
    for i in 0..1200 {
        let key = sessions.key(&i.to_string());
        assert_eq!(
            sessions.write(key, &one(i), &Floor::default(), None, at(0)),
            Kept::Stored
        );
    }
    for i in 0..1200 {
        let kept = sessions
            .state(sessions.key(&i.to_string()), at(1))
            .requirement;
        assert_eq!(kept.to_set(), one(i).to_set(), "{i}");
    }
}

#[test]
fn rebasing_takes_out_what_is_lost_and_nothing_else() {
    for (before, lost, after) in [
        ("A:5", "A:5", ""),
        ("A:5", "A:6", "A:5"),
        ("A:1-9", "A:8-9", "A:1-7"),
        ("A:5:9,B:1", "A:9", "A:5,B:1"),
    ] {
        let sessions = table(LIMITS);
        let _kept = wrote(&sessions, before, 0);
        sessions.rebase(sessions.key("u"), &set(lost));
        assert_eq!(
            state(&sessions, 1).requirement,
            need(after),
            "{before} less {lost}"
        );
    }
    let sessions = table(LIMITS);
    sessions.rebase(sessions.key("u"), &set("A:1"));
    assert!(sessions.is_empty(), "no slot is made");
}

#[test]
fn keys_depend_on_the_table_s_secret() {
    let (one, two) = (table(LIMITS), Sessions::new(LIMITS, [2; 16]));
    assert_ne!(one.key("u"), two.key("u"));
    assert_ne!(one.key("u"), one.key("v"));
}
