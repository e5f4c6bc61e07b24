//! What GTID sets promise, by example: here sets, in `text` reading and
//! printing; in `model` the same by chance, against a naive model.

mod model;
mod text;

use super::*;

const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
const B: &str = "aaaaaaaa-71ca-11e1-9e33-c80aa9429562";

/// A set from text with `A` and `B` for the two UUIDs.
fn set(text: &str) -> GtidSet {
    spelled(text).parse().expect("a valid set")
}

fn spelled(text: &str) -> String {
    text.replace('A', A).replace('B', B)
}

fn gtid(text: &str) -> Gtid {
    spelled(text).parse().expect("a valid GTID")
}

#[test]
fn gaps_are_missing_even_below_the_largest_number() {
    let set = set("A:1-5:7-9");
    for (text, expected) in [
        ("A:1", true),
        ("A:5", true),
        ("A:6", false),
        ("A:9", true),
        ("A:10", false),
    ] {
        assert_eq!(set.contains(&gtid(text)), expected, "{text}");
    }
    assert_eq!(set.watermark(&gtid("A:1").sid), 5);
    assert_eq!(set.count(), 8);
    assert!(!set.contains(&gtid("B:1")));
}

#[test]
fn a_tag_is_another_sequence() {
    let set = set("A:1-5:tag:7-9");
    assert!(!set.contains(&gtid("A:tag:1")) && !set.contains(&gtid("A:7")));
    assert!(set.contains(&gtid("A:tag:7")) && !set.contains(&gtid("A:tab:7")));
    assert!(!set.contains_set(&super::tests::set("A:tag:1")));
    assert_eq!(set.watermark(&gtid("A:tag:7").sid), 0);
    assert_eq!(set.watermark(&gtid("A:7").sid), 5);
}

#[test]
fn numbers_that_cannot_exist_are_left_out() {
    let sid = gtid("A:1").sid;
    let mut set = GtidSet::default();
    for (start, end) in [(0, 0), (9, 3), (GNO_MAX + 1, u64::MAX), (u64::MAX, 0)] {
        set.insert_range(sid, start, end);
        assert!(set.is_empty() && set.intervals(&sid).is_none());
    }
    set.insert_range(sid, 0, u64::MAX);
    assert_eq!(set.to_string(), format!("{A}:1-{GNO_MAX}"));
    set.insert_range(sid, GNO_MAX, GNO_MAX);
    assert!(set.contains(&Gtid { sid, gno: GNO_MAX }));
    assert!(!set.contains(&Gtid { sid, gno: 0 }) && !set.contains(&Gtid { sid, gno: u64::MAX }));
    assert_eq!((set.count(), set.watermark(&sid)), (GNO_MAX, GNO_MAX));
    assert_eq!(
        (Gtid::new(sid, 0), Gtid::new(sid, GNO_MAX + 1)),
        (None, None)
    );
    assert_eq!(set.subtract(&set.clone()), GtidSet::default());
}

#[test]
fn a_count_past_u64_stops_at_its_maximum() {
    let set = set("A:1-9223372036854775806:a:1-9223372036854775806:b:1-9223372036854775806");
    assert_eq!(set.count(), u64::MAX);
}

#[test]
fn a_write_after_a_clone_leaves_the_clone_alone() {
    let mut set = set("A:1:3:5");
    let clone = set.clone();
    set.insert(gtid("A:2"));
    assert_eq!(clone.to_string(), spelled("A:1:3:5"));
    assert_eq!(set.to_string(), spelled("A:1-3:5"));
}

#[test]
fn one_interval_needs_no_memory_of_its_own() {
    let one = set("A:1-5");
    let sid = gtid("A:1").sid;
    assert_eq!(one.intervals(&sid).map(IntervalSet::heap_bytes), Some(0));
    assert!(one.heap_bytes() > 0 && set("A:1:3").heap_bytes() > one.heap_bytes());
    assert_eq!(GtidSet::default().heap_bytes(), 0);
}
