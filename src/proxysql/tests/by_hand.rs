//! Whose hand it was, on tables: memory and runtime before, and after.

use super::super::testing::{key, table};
use super::*;

/// Rows changed by hand between two tables, both with the wants of the first.
fn changed_between(before: &str, after: &str) -> Vec<String> {
    let (before, wants) = table(before);
    let (after, _) = table(after);
    let known = Known::of(&before, &wants);
    changed(&known, &after).iter().map(Key::to_string).collect()
}

/// The same row before and after, in a hostgroup of its own and in a placed one.
fn check(before: &str, after: &str, own: bool, placed: bool) {
    for (hostgroup, expected) in [(21, own), (20, placed)] {
        let text = |row: &str| format!("10>20\n {hostgroup} db2 | {row} | on");
        let found = changed_between(&text(before), &text(after));
        assert_eq!(
            !found.is_empty(),
            expected,
            "{hostgroup}: {before} -> {after}"
        );
    }
}

#[test]
fn an_administrator_is_told_from_a_monitor_and_from_proxysql() {
    // What is in force changed with what memory says: somebody's LOAD.
    check("ONLINE | =", "ONLINE | =", false, false);
    check("ONLINE | =", "OFFLINE_SOFT | =", true, true);
    check("ONLINE | =", "SHUNNED | =", true, true);
    check("OFFLINE_SOFT | =", "ONLINE | =", true, true);
    check("ONLINE | =", "OFFLINE_HARD | =", true, true);
    // Monitors copy the weight, make ONLINE, add and remove where they place.
    check("ONLINE | =", "ONLINE w5 | =", true, false);
    check("SHUNNED | =", "SHUNNED | ONLINE", true, false);
    check("ONLINE | =", "ONLINE | ", true, false);
    check("ONLINE | =", "ONLINE | OFFLINE_HARD", true, false);
    check(" | ", " | ONLINE", true, false);
    check(" | ", " | ", false, false);
}

#[test]
fn what_proxysql_shuns_and_takes_back_is_nobodys_hand() {
    check("ONLINE | =", "ONLINE | SHUNNED", false, false);
    check("ONLINE | SHUNNED", "ONLINE | =", false, false);
    check("ONLINE | SHUNNED", "ONLINE | SHUNNED", false, false);
    check("ONLINE | SHUNNED", "OFFLINE_SOFT | =", true, true);
    check("ONLINE | SHUNNED", "SHUNNED | =", true, true);
}

#[test]
fn only_rows_that_are_wanted_are_watched() {
    let found = changed_between(
        "30 db1 | ONLINE | = |\n 21 db2 | ONLINE | = | on",
        "30 db1 | OFFLINE_SOFT | = |\n 21 db2 | ONLINE | = |\n 21 db3 | ONLINE | = |",
    );
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_row_is_named() {
    let found = changed_between("21 db2 | ONLINE | = | off", "21 db2 | SHUNNED | = |");
    assert_eq!(found, ["hostgroup 21 db2:3306"]);
}

#[test]
fn a_row_is_as_wanted_when_it_takes_work_or_not_with_its_weight() {
    let cases = [
        ("ONLINE | = | on", true),
        ("ONLINE | = | off", false),
        ("SHUNNED | = | off", true),
        ("OFFLINE_SOFT | = | on", false),
        ("ONLINE w5 | = | on w5", true),
        ("ONLINE w5 | = | on w7", false),
        (" | | off", true),
        (" | | on", false),
        // Of a row that nobody wants now nothing can be said.
        ("OFFLINE_SOFT | = |", false),
    ];
    for (row, expected) in cases {
        let (snapshot, wants) = table(&format!("21 db2 | {row}"));
        let found = as_wanted(&snapshot, &wants, &key(21, "db2"));
        assert_eq!(found, expected, "{row}");
    }
}
