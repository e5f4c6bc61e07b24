//! GTID sets against a naive model: a `BTreeSet` of single transactions.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::*;
use super::{A, B};

type Model = BTreeSet<(Sid, u64)>;

/// Few names and small numbers, so that overlaps, adjacency, gaps and equal
/// sets all happen often. The two halves differ in first and in last byte.
fn sid() -> impl Strategy<Value = Sid> {
    let uuids = [A.to_owned(), B.to_owned(), A.replace("62", "63")];
    let uuid = prop::sample::select(uuids.to_vec());
    let tag = prop::sample::select(vec![
        "",
        "",
        "a",
        "aa",
        "b_",
        "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz",
    ]);
    (uuid, tag).prop_map(|(uuid, tag)| Sid {
        uuid: uuid.parse().expect("a UUID"),
        tag: tag.parse().expect("a tag"),
    })
}

fn ranges() -> impl Strategy<Value = Vec<(Sid, u64, u64)>> {
    let range =
        (sid(), 1..60_u64, 0..6_u64).prop_map(|(sid, start, len)| (sid, start, start + len));
    prop::collection::vec(range, 0..40)
}

/// Many intervals of one `Sid`, for the paths that skip ahead.
fn long_ranges() -> impl Strategy<Value = Vec<(Sid, u64, u64)>> {
    let range = (1..3000_u64, 0..9_u64).prop_map(|(start, len)| (start, start + len));
    (sid(), prop::collection::vec(range, 0..300))
        .prop_map(|(sid, all)| all.into_iter().map(|(s, e)| (sid, s, e)).collect())
}

fn any_ranges() -> impl Strategy<Value = Vec<(Sid, u64, u64)>> {
    prop_oneof![ranges(), long_ranges()]
}

fn model(ranges: &[(Sid, u64, u64)]) -> Model {
    let each = ranges
        .iter()
        .flat_map(|&(sid, start, end)| (start..=end).map(move |gno| (sid, gno)));
    each.collect()
}

fn inserted(ranges: &[(Sid, u64, u64)]) -> GtidSet {
    let mut set = GtidSet::default();
    for &(sid, start, end) in ranges {
        set.insert_range(sid, start, end);
    }
    set
}

fn collected(model: &Model) -> GtidSet {
    model.iter().map(|&(sid, gno)| Gtid { sid, gno }).collect()
}

fn members(set: &GtidSet) -> Model {
    let spans = set
        .sids()
        .flat_map(|(sid, set)| set.iter().map(|span| (*sid, span)));
    spans
        .flat_map(|(sid, (start, end))| (start..=end).map(move |gno| (sid, gno)))
        .collect()
}

/// The form that makes equal sets equal memory.
fn check_normal(set: &GtidSet) {
    let sids: Vec<_> = set.sids().map(|(sid, _)| *sid).collect();
    assert!(sids.is_sorted_by(|a, b| a < b), "{set:?}");
    for (_, intervals) in set.sids() {
        let spans: Vec<_> = intervals.iter().collect();
        assert!(!spans.is_empty() && spans.iter().all(|span| 1 <= span.0 && span.0 <= span.1));
        assert!(spans.is_sorted_by(|a, b| a.1 + 1 < b.0), "{spans:?}");
    }
}

/// Equal as a set, as memory, and by every way to build it.
fn check_same(set: &GtidSet, model: &Model) {
    check_normal(set);
    assert_eq!(&members(set), model);
    assert_eq!(set, &collected(model));
}

fn naive_watermark(model: &Model, sid: Sid) -> u64 {
    (1..)
        .find(|&gno| !model.contains(&(sid, gno)))
        .map_or(0, |gno| gno - 1)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn building_and_asking(ranges in any_ranges(), probe in sid(), gno in 0..70_u64) {
        let (set, model) = (inserted(&ranges), model(&ranges));
        check_same(&set, &model);
        prop_assert_eq!(set.count(), model.len() as u64);
        prop_assert_eq!(set.is_empty(), model.is_empty());
        prop_assert_eq!(set.contains(&Gtid { sid: probe, gno }), model.contains(&(probe, gno)));
        prop_assert_eq!(set.watermark(&probe), naive_watermark(&model, probe));
        for &(sid, start, end) in &ranges {
            for gno in [start - 1, start, end, end + 1] {
                prop_assert_eq!(set.contains(&Gtid { sid, gno }), model.contains(&(sid, gno)));
            }
            prop_assert_eq!(set.watermark(&sid), naive_watermark(&model, sid));
        }
    }

    #[test]
    fn combining(left in any_ranges(), right in any_ranges()) {
        let (a, b) = (inserted(&left), inserted(&right));
        let (ma, mb) = (model(&left), model(&right));
        check_same(&a.union(&b), &(&ma | &mb));
        check_same(&a.subtract(&b), &(&ma - &mb));
        check_same(&a.intersect(&b), &(&ma & &mb));
        prop_assert_eq!(a.contains_set(&b), mb.is_subset(&ma));
        prop_assert_eq!(a == b, ma == mb);
        prop_assert!(a.union(&b).contains_set(&b) && a.contains_set(&a.intersect(&b)));
    }

    /// Unlike the above, most pairs here are nearly one within the other.
    #[test]
    fn near_subsets(all in any_ranges(), drop in any::<prop::sample::Index>(), keep in any::<bool>()) {
        prop_assume!(!all.is_empty());
        let outer = inserted(&all);
        let mut inner = model(&all);
        let missing = *inner.iter().nth(drop.index(inner.len())).expect("in range");
        if keep {
            prop_assert!(outer.contains_set(&collected(&inner)));
            inner.remove(&missing);
            prop_assert!(outer.contains_set(&collected(&inner)));
            prop_assert!(!collected(&inner).contains_set(&outer));
        } else {
            let (sid, gno) = missing;
            let hole = outer.subtract(&GtidSet::from(Gtid { sid, gno }));
            prop_assert!(!hole.contains_set(&outer) && outer.contains_set(&hole));
            prop_assert_eq!(outer.subtract(&hole).count(), 1);
        }
    }

    #[test]
    fn printing_and_parsing_is_the_identity(ranges in any_ranges()) {
        let set = inserted(&ranges);
        prop_assert_eq!(&set.to_string().parse::<GtidSet>().expect("compact"), &set);
        prop_assert_eq!(&format!("{set:#}").parse::<GtidSet>().expect("lines"), &set);
        prop_assert_eq!(&GtidSet::parse_bytes(set.to_string().as_bytes(), Limits::TOKEN), &Ok(set));
    }

    #[test]
    fn parsing_takes_ranges_in_any_order(ranges in any_ranges()) {
        let text: Vec<_> = ranges.iter().map(|(sid, s, e)| format!("{sid} : {s} - {e}")).collect();
        let set: GtidSet = text.join(" ,\n").parse().expect("a valid text");
        check_same(&set, &model(&ranges));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_everything(&bytes);
    }

    /// Texts made of the grammar's own pieces, in no order.
    #[test]
    fn grammar_shaped_text_never_panics(pieces in prop::collection::vec(piece(), 0..20)) {
        read_everything(pieces.concat().as_bytes());
    }

    /// Valid texts with one byte replaced, removed, or cut off.
    #[test]
    fn mutated_text_never_panics(
        ranges in ranges(), at in any::<prop::sample::Index>(), byte in any::<u8>(), how in 0..3_u8,
    ) {
        let mut text = format!("{:#}", inserted(&ranges)).into_bytes();
        text.push(b' ');
        let at = at.index(text.len());
        match how {
            0 => text[at] = byte,
            1 => drop(text.remove(at)),
            _ => text.truncate(at),
        }
        read_everything(&text);
    }
}

fn piece() -> impl Strategy<Value = String> {
    let pieces = [
        A,
        B,
        ":",
        ":",
        ",",
        "-",
        "#",
        " ",
        "\n",
        "{",
        "}",
        "1",
        "5",
        "0",
        "tag",
        "é",
        "\0",
        "99999999999999999999",
        "9223372036854775806",
        "9223372036854775807",
        "18446744073709551615",
        "abcdefghijklmnopqrstuvwxyz_0123456789",
    ];
    prop::sample::select(pieces.map(str::to_owned).to_vec())
}

/// Whatever is read is normal and reads back; whatever is refused says where.
fn read_everything(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = (
        text.parse::<Gtid>(),
        text.parse::<Uuid>(),
        text.parse::<Tag>(),
    );
    if let Ok(owned) = parse_owned(&text) {
        check_normal(&owned);
    }
    match GtidSet::parse_bytes(bytes, Limits::TOKEN) {
        Ok(set) => {
            check_normal(&set);
            assert_eq!(set.to_string().parse::<GtidSet>(), Ok(set));
        }
        Err(error) => {
            assert!(error.position() <= bytes.len());
            assert!(
                error
                    .to_string()
                    .chars()
                    .all(|c| c == '…' || (' '..='~').contains(&c))
            );
        }
    }
}
