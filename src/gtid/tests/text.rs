//! Reading and printing: MySQL's grammar, its printed form, errors, limits.

use super::super::*;
use super::{A, gtid, set, spelled};

fn error(text: &str) -> String {
    let error = spelled(text).parse::<GtidSet>().expect_err("malformed");
    error.to_string()
}

#[track_caller]
fn check_print(text: &str, expected: &str) {
    assert_eq!(set(text).to_string(), spelled(expected), "{text}");
    let lines = spelled(expected).replace(',', ",\n");
    assert_eq!(format!("{:#}", set(text)), lines, "{text}");
}

#[test]
fn prints_the_normal_form() {
    check_print("A:1", "A:1");
    check_print("A:3:1-2:7-9:8-12", "A:1-3:7-12");
    check_print("B:2,A:1,,A:2", "A:1-2,B:2");
    check_print("A:5-9223372036854775806", "A:5-9223372036854775806");
    // Tags that differ in the first half only, and in the second half only.
    check_print("A:b:1:abcdefghijklmnopqz:2", "A:abcdefghijklmnopqz:2:b:1");
    check_print(
        "A:abcdefghijklmnopqz:1:abcdefghijklmnopqa:2",
        "A:abcdefghijklmnopqa:2:abcdefghijklmnopqz:1",
    );
    check_print("A:b_:1:b:2:b1:3:ba:4:5", "A:b:2:b1:3:b_:1:ba:4-5");
    check_print("A,B:b:1:a:2:9,B:4", "B:4:a:2:9:b:1");
}

#[test]
fn reads_what_the_server_reads() {
    check_print(" A : 5 - 7 : 9 , B : Tag : 3 ", "A:5-7:9,B:tag:3");
    check_print("\tA\u{b}:5\u{c}-\r7\n,\nB:1", "A:5-7,B:1");
    check_print("A:010:0000000000000000000000000000000005", "A:5:10");
    check_print("{A}:1", "A:1");
    check_print(&format!("{}:1", A.replace('-', "")), "A:1");
    check_print("A:a:3:b:4:5,A:6:a:4", "A:6:a:3-4:b:4-5");
    check_print("A:a:b:3", "A:b:3");
    check_print("A:_1:1", "A:_1:1");
}

#[test]
fn empty_elements_and_reversed_intervals_add_nothing() {
    for text in [
        "", "  ", ",", ", ,\n", "A", "A:tag", "A:5-3", "A:5-0", "A,B:x:y",
    ] {
        assert!(set(text).is_empty(), "{text}");
    }
    check_print(",A:5-3:7,,B:tag:2-1:9:x,", "A:7,B:tag:9");
    check_print("A:9223372036854775806-3,B:1", "B:1");
}

#[test]
fn upper_case_is_read_and_lower_case_printed() {
    let text = format!("{}:TAG_X:5", A.to_uppercase());
    let set: GtidSet = text.parse().expect("upper case is fine");
    assert_eq!(set.to_string(), format!("{A}:tag_x:5"));
}

#[test]
fn a_malformed_text_is_refused_with_place_and_piece() {
    let item = "expected a number or a tag at byte";
    let separator = "expected ':', ',' or the end at byte";
    let range = "expected a number within 1..=9223372036854775806 at byte";
    let tag = "expected a tag of at most 32 letters, digits and '_' at byte";
    for (text, expected) in [
        ("A:", format!("{item} 37, found the end")),
        ("A: ", format!("{item} 38, found the end")),
        ("A::5", format!("{item} 37, found \":5\"")),
        ("A:tag: :6", format!("{item} 42, found \":6\"")),
        ("A:+5", format!("{item} 37, found \"+5\"")),
        ("A:-5", format!("{item} 37, found \"-5\"")),
        ("A:5-", "expected a number at byte 39, found the end".into()),
        (
            "A:5--3",
            "expected a number at byte 39, found \"-3\"".into(),
        ),
        ("A:0", format!("{range} 37, found \"0\"")),
        ("A:0x10", format!("{range} 37, found \"0x10\"")),
        (
            "A:9223372036854775807",
            format!("{range} 37, found \"9223372036854775807\""),
        ),
        (
            "A:1-18446744073709551616",
            format!("{range} 39, found \"18446744073709551616\""),
        ),
        ("A:5a", format!("{separator} 38, found \"a\"")),
        ("A:1-2-3", format!("{separator} 40, found \"-3\"")),
        (
            "A:1 B:2",
            format!("{separator} 39, found \"aaaaaaaa-71ca-11e1-9e33-…\""),
        ),
        ("A:a-b:1", format!("{separator} 38, found \"-b:1\"")),
        ("A;", format!("{separator} 36, found \";\"")),
        (
            "{A",
            "expected a UUID at byte 0, found \"{3e11fa47-71ca-11e1-9e33…\"".into(),
        ),
        (
            ",+A:1",
            "expected a UUID at byte 1, found \"+3e11fa47-71ca-11e1-9e33…\"".into(),
        ),
        ("A:1,x", "expected a UUID at byte 39, found \"x\"".into()),
        (
            "A:abcdefghijklmnopqrstuvwxyzabcdefg:1",
            format!("{tag} 37, found \"abcdefghijklmnopqrstuvwx…\""),
        ),
    ] {
        assert_eq!(error(text), expected, "{text}");
    }
}

#[test]
fn an_error_shows_hostile_text_escaped_and_short() {
    assert_eq!(
        error("A:1\u{1b}[31m\0\"é"),
        r#"expected ':', ',' or the end at byte 38, found "\x1b[31m\x00\"\xc3\xa9""#
    );
    let long = format!("A:té{}", "é".repeat(1000));
    let found = error(&long);
    assert!(found.len() < 160, "{found}");
    assert!(
        found.is_char_boundary(found.len() - 1) && found.ends_with("…\""),
        "{found}"
    );
}

#[test]
fn every_strict_prefix_of_a_text_is_read_or_refused_in_place() {
    let text = spelled("A:1-5:tag:7, {B}:8");
    for end in 0..=text.len() {
        if let Err(error) = text[..end].parse::<GtidSet>() {
            assert!(error.position() <= end, "{end}: {error}");
        }
    }
}

#[test]
fn limits_are_exact() {
    let text = spelled("A:1:3:5");
    let limits = |bytes_max, intervals_max| Limits {
        bytes_max,
        intervals_max,
    };
    assert!(GtidSet::parse(&text, limits(text.len(), 3)).is_ok());
    let error = GtidSet::parse(&text, limits(text.len() - 1, 3)).expect_err("too long");
    assert_eq!(error.kind(), ParseErrorKind::Bytes(41));
    assert_eq!(
        error.to_string(),
        "expected at most 41 bytes at byte 41, found \"5\""
    );
    let error = GtidSet::parse(&text, limits(text.len(), 2)).expect_err("too many");
    assert_eq!(error.kind(), ParseErrorKind::Intervals(2));
    assert_eq!(
        error.to_string(),
        "expected at most 2 intervals at byte 41, found \"5\""
    );
    assert_eq!(Limits::default(), Limits::SERVER);
}

#[test]
fn a_hostile_order_costs_no_quadratic_time() {
    let numbers: String = (1..=100_000_u64)
        .rev()
        .map(|n| format!(":{}", 2 * n))
        .collect();
    let set: GtidSet = format!("{A}{numbers}").parse().expect("in any order");
    assert_eq!(set.interval_count(), 100_000);
    let uuids: Vec<String> = (0..50_000_u32)
        .rev()
        .map(|n| format!("{n:08x}{}:1", &A[8..]))
        .collect();
    let set: GtidSet = uuids.join(",").parse().expect("in any order");
    assert_eq!(set.sids().len(), 50_000);
}

#[test]
fn single_gtids_print_and_parse() {
    for text in ["A:5", "A:tag:5", "A:9223372036854775806"] {
        assert_eq!(gtid(text).to_string(), spelled(text));
        assert_eq!(GtidSet::from(gtid(text)).to_string(), spelled(text));
    }
    assert_eq!(gtid(" A : Tag : 05 "), gtid("A:tag:5"));
    let error = |text: &str| spelled(text).parse::<Gtid>().expect_err(text).to_string();
    assert_eq!(
        error("A"),
        "expected a number or a tag at byte 36, found the end"
    );
    assert_eq!(
        error("A:tag:b:5"),
        "expected a number at byte 41, found \"b:5\""
    );
    assert_eq!(error("A:5-6"), "expected the end at byte 38, found \"-6\"");
    assert_eq!(error("A:5,"), "expected the end at byte 38, found \",\"");
}

#[test]
fn tags_and_uuids_stand_alone() {
    assert_eq!("Tag_1".parse::<Tag>().expect("a tag").as_str(), "tag_1");
    assert_eq!("".parse::<Tag>(), Ok(Tag::NONE));
    for text in ["1a", "a-b", "a b", "é", &"a".repeat(33)] {
        assert!(text.parse::<Tag>().is_err(), "{text}");
    }
    let uuid: Uuid = A.to_uppercase().parse().expect("a UUID");
    assert_eq!(uuid.to_string(), A);
    assert_eq!(Uuid::from_bytes(uuid.to_bytes()), uuid);
    assert_eq!(Sid::from(uuid).to_string(), A);
    for text in [
        "",
        &A[1..],
        &A.replace('-', "_"),
        &format!("{{{}}}", A.replace('-', "")),
        &format!("{A}:1"),
    ] {
        assert!(text.parse::<Uuid>().is_err(), "{text}");
    }
}

#[test]
fn owned_gtids_run_into_each_other_as_the_server_prints_them() {
    // As MySQL 9.7 printed it: no separator, thread numbers before UUIDs.
    let text = spelled("A:3#86:1#85:2#87A:abc:12#88A:tag:9#84B:zz:77#89");
    let owned = parse_owned(&text).expect("the server's form");
    assert_eq!(owned.to_string(), spelled("A:1-3:abc:12:tag:9,B:zz:77"));
    assert_eq!(parse_owned(""), Ok(GtidSet::default()));
    let text = spelled("A:4#17:5#18,\nB:tag:7#20");
    assert_eq!(parse_owned(&text), Ok(set("A:4-5,B:tag:7")));
}

#[test]
fn owned_gtids_of_another_form_are_refused() {
    let error = |text: &str| parse_owned(&spelled(text)).expect_err(text).to_string();
    let owner = "expected '#' and a thread number at byte 38, found";
    assert_eq!(error("A:3"), format!("{owner} the end"));
    assert_eq!(error("A:3#"), format!("{owner} \"#\""));
    assert_eq!(error("A:3#x"), format!("{owner} \"#x\""));
    assert_eq!(
        error("A:3#A:4#5"),
        format!("{owner} \"#3e11fa47-71ca-11e1-9e33…\"")
    );
    assert_eq!(error("A:3#-1"), format!("{owner} \"#-1\""));
    assert_eq!(
        error("A:3#4:"),
        "expected a number at byte 41, found the end"
    );
    assert_eq!(error("x"), "expected a UUID at byte 0, found \"x\"");
}

#[test]
fn serde_goes_through_the_text() {
    let text = format!("\"{}\"", spelled("A:1-5:tag:7,B:9"));
    let set: GtidSet = serde_json::from_str(&text).expect("a set");
    assert_eq!(serde_json::to_string(&set).expect("text"), text);
    let text = format!("\"{A}:tag:7\"");
    let gtid: Gtid = serde_json::from_str(&text).expect("a GTID");
    assert_eq!(serde_json::to_string(&gtid).expect("text"), text);
    let error = serde_json::from_str::<GtidSet>("\"x\"").expect_err("no set");
    assert!(
        error
            .to_string()
            .starts_with("expected a UUID at byte 0, found \"x\""),
        "{error}"
    );
    let error = serde_json::from_str::<GtidSet>("5").expect_err("no text");
    assert!(error.to_string().contains("a GTID set such as"), "{error}");
}

#[test]
fn debug_is_the_text() {
    assert_eq!(format!("{:?}", set("A:1-5,B:2")), spelled("A:1-5,B:2"));
    assert_eq!(format!("{:?}", gtid("A:tag:1")), spelled("A:tag:1"));
}
