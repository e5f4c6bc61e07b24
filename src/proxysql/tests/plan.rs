//! What a plan does, on tables of cases and on any tables at all.

use proptest::prelude::*;

use super::super::rows::{Monitor, Placement};
use super::super::testing::{empty, execute, key, load, set_in_force, table};
use super::*;

fn show(plan: &Plan) -> String {
    let mut lines: Vec<String> = Vec::new();
    for change in &plan.changes {
        let why = match change.why {
            Why::Wanted => "wanted",
            Why::Monitor => "monitor",
        };
        let server = change.server.trim_end_matches(":3306");
        lines.push(format!(
            "{why} {} {server}: {}",
            change.hostgroup, change.what
        ));
    }
    lines.extend(plan.staged.iter().map(|staged| format!("staged {staged}")));
    lines.join("\n")
}

/// Carries `plan` out on the model, LOAD included.
fn carried_out(before: &Snapshot, plan: &Plan) -> Snapshot {
    let mut after = before.clone();
    for change in &plan.changes {
        execute(&mut after.memory, &change.statement);
    }
    load(&mut after);
    after
}

/// What holds for every plan.
fn check_promises(before: &Snapshot, wants: &[Want], respected: &BTreeSet<Key>, plan: &Plan) {
    let ours = |key: &Key| !respected.contains(key) && wants.iter().any(|want| want.key == *key);
    for change in &plan.changes {
        let (host, _) = change.server.rsplit_once(':').expect("host:port");
        let follows = change.why == Why::Monitor && before.is_placed(change.hostgroup);
        assert!(ours(&key(change.hostgroup, host)) || follows, "{change:?}");
    }
    if plan.is_empty() || !plan.staged.is_empty() {
        return;
    }
    let after = carried_out(before, plan);
    let (was, is) = (set_in_force(before), set_in_force(&after));
    for key in was.keys().chain(is.keys()).filter(|key| !ours(key)) {
        assert_eq!(
            was.get(key),
            is.get(key),
            "{key} is not ours: {}",
            show(plan)
        );
    }
    for want in wants.iter().filter(|want| ours(&want.key)) {
        let made = !was.contains_key(&want.key) && is.contains_key(&want.key);
        let theirs = before.is_placed(want.key.hostgroup) && want.create != Create::Always;
        assert!(!(made && theirs), "{want:?} was made");
    }
    let left = super::plan(&after, wants, &scope(respected));
    assert_eq!(left, Plan::default(), "after {}", show(plan));
}

fn check_respecting(text: &str, respected: &[Key], expected: &str) {
    let (snapshot, wants) = table(text);
    let respected: BTreeSet<Key> = respected.iter().cloned().collect();
    let plan = super::plan(&snapshot, &wants, &scope(&respected));
    let expected: Vec<&str> = expected
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect();
    assert_eq!(show(&plan), expected.join("\n"), "{text}");
    check_promises(&snapshot, &wants, &respected, &plan);
}

fn check(text: &str, expected: &str) {
    check_respecting(text, &[], expected);
}

#[test]
fn nothing_to_do_is_an_empty_plan() {
    check("", "");
    check(
        "10>20
         10 db1 | ONLINE              | = |
         20 db2 | ONLINE lag60        | = | on lag60
         20 db3 | SHUNNED             | = | off
         21 db2 | ONLINE w7           | = | on w7
         21 db3 | OFFLINE_SOFT        | = | off
         22 db3 | OFFLINE_HARD        | = | off
         23 db3 |                     | = | off",
        "",
    );
}

#[test]
fn what_others_prepare_is_none_of_our_business_while_all_is_as_wanted() {
    check(
        "21 db2 | ONLINE    | =      | on
         30 db2 | ONLINE w5 | ONLINE |
         30 db3 | ONLINE    |        |",
        "",
    );
}

#[test]
fn a_replica_leaves_a_placed_hostgroup_by_shunned() {
    check(
        "10>20
         10 db1 | ONLINE | = |
         20 db2 | ONLINE | = | off
         20 db3 | ONLINE | = | on",
        "wanted 20 db2: status 'ONLINE' -> 'SHUNNED'",
    );
}

#[test]
fn a_replica_leaves_a_hostgroup_of_its_own_by_offline_soft() {
    check(
        "10>20
         21 db2 | ONLINE | = | off",
        "wanted 21 db2: status 'ONLINE' -> 'OFFLINE_SOFT'",
    );
}

#[test]
fn a_replica_comes_back() {
    check(
        "10>20
         20 db2 | SHUNNED      | = | on
         21 db2 | OFFLINE_SOFT | = | on
         22 db2 | OFFLINE_HARD | = | on",
        "wanted 20 db2: status 'SHUNNED' -> 'ONLINE'
         wanted 21 db2: status 'OFFLINE_SOFT' -> 'ONLINE'
         wanted 22 db2: status 'OFFLINE_HARD' -> 'ONLINE'",
    );
}

#[test]
fn a_monitor_does_not_look_at_offline_soft_so_it_becomes_shunned() {
    check(
        "10>20
         20 db2 | OFFLINE_SOFT | = | off",
        "wanted 20 db2: status 'OFFLINE_SOFT' -> 'SHUNNED'",
    );
}

#[test]
fn what_proxysql_shunned_is_left_alone() {
    let shunned = "10>20
         20 db2 | ONLINE | SHUNNED | on
         21 db2 | ONLINE | SHUNNED | on
         30 db2 | ONLINE | SHUNNED |
         21 db3 | ONLINE | ONLINE  |";
    check(shunned, "");
    // Neither is it an entry of a plan made for another row.
    check(
        &format!("{shunned} off"),
        "wanted 21 db3: status 'ONLINE' -> 'OFFLINE_SOFT'",
    );
}

#[test]
fn who_is_out_stays_out_when_proxysql_takes_back_what_it_shunned() {
    check(
        "10>20
         20 db2 | ONLINE | SHUNNED | off",
        "wanted 20 db2: status 'ONLINE' -> 'SHUNNED' in mysql_servers",
    );
    check(
        "21 db2 | ONLINE | SHUNNED | off",
        "wanted 21 db2: status 'SHUNNED' -> 'OFFLINE_SOFT'",
    );
}

#[test]
fn a_hint_hostgroup_is_made_once_with_both_rows() {
    let text = |rows: &str| {
        format!(
            "10>20
             10 db1   | ONLINE max50 lag3 #src | = |
             20 db2   | ONLINE max70 w5 | = |
             {rows}"
        )
    };
    let missing = text(
        "9002 db1 | | | on w1 always
         9002 db2 | | | on w10000000 always
         9002 db3 | | | off w1",
    );
    check(&missing, "wanted 9002 db1: added\nwanted 9002 db2: added");
    let (snapshot, wants) = table(&missing);
    let plan = super::plan(&snapshot, &wants, &Scope::default());
    assert!(plan.adds_rows);
    let after = carried_out(&snapshot, &plan);
    let made = &after.runtime[&key(9002, "db1")];
    assert_eq!(
        (made.max_connections, made.weight),
        (50, 1),
        "it connects alike"
    );
    assert_eq!((made.max_replication_lag, made.status), (0, Status::Online));
    assert_eq!(made.comment, "managed by causeway");
    check(
        &text(
            "9002 db1 | ONLINE           | = | on w1 always
             9002 db2 | ONLINE w10000000 | = | on w10000000 always",
        ),
        "",
    );
}

#[test]
fn in_a_placed_hostgroup_only_what_must_be_is_made() {
    check(
        "10>20
         10 db1 | ONLINE | = |
         20 db1 |        | = | on always
         20 db2 |        | = | on lag60
         21 db2 |        | = | on lag60",
        "wanted 20 db1: added
         wanted 21 db2: added",
    );
}

#[test]
fn the_guard_is_put_only_where_there_is_none() {
    check(
        "21 db1 | ONLINE       | = | on
         21 db2 | ONLINE       | = | on lag60
         21 db3 | ONLINE lag5  | = | on lag60",
        "wanted 21 db2: max_replication_lag 0 -> 60",
    );
}

#[test]
fn a_wanted_weight_is_put_right() {
    check(
        "9002 db1 | ONLINE w5 | = | on w1
         9002 db2 | ONLINE w5 | = | on",
        "wanted 9002 db1: weight 5 -> 1",
    );
}

#[test]
fn memory_follows_a_promotion() {
    // db1 was the source; db2 was out, and is the source now.
    check(
        "10>20
         10 db1 | ONLINE w9 #a |              |
         20 db1 |              | ONLINE w9 #a | off
         10 db2 |              | ONLINE w5 #b |
         20 db2 | SHUNNED w5 #b| ONLINE w5 #b |
         20 db3 | ONLINE       | =            | on",
        "monitor 10 db1: moved away
         monitor 10 db2: moved here
         monitor 20 db2: status 'SHUNNED' -> 'ONLINE'
         wanted 20 db1: status 'ONLINE' -> 'SHUNNED'",
    );
}

#[test]
fn memory_follows_a_promotion_that_also_copied_the_weight() {
    check(
        "10>20
         10 db2 | SHUNNED w9 #w | ONLINE w5 #r |
         20 db2 | ONLINE w5 #r  | =            |
         21 db2 | ONLINE        | =            | off",
        "monitor 10 db2: status 'SHUNNED' -> 'ONLINE', weight 9 -> 5, comment 'w' -> 'r'
         wanted 21 db2: status 'ONLINE' -> 'OFFLINE_SOFT'",
    );
}

#[test]
fn a_moved_server_that_proxysql_shunned_is_not_shunned_for_good() {
    let text = "10>20
         20 db2 | ONLINE |         |
         10 db2 |        | SHUNNED |
         21 db3 | ONLINE | =       | off";
    let moved = "monitor 10 db2: moved here
         monitor 20 db2: moved away
         wanted 21 db3: status 'ONLINE' -> 'OFFLINE_SOFT'";
    check(text, moved);
    let (snapshot, wants) = table(text);
    let plan = super::plan(&snapshot, &wants, &Scope::default());
    let after = carried_out(&snapshot, &plan);
    assert_eq!(after.memory[&key(10, "db2")].status, Status::Online);
}

#[test]
fn what_a_monitor_moved_away_is_not_brought_back() {
    // db2 was promoted, and the writer is not also a reader.
    for shown in ["", "OFFLINE_HARD"] {
        check(
            &format!(
                "10>20
                 10 db2 | ONLINE | =       |
                 20 db2 | ONLINE | {shown} | on lag60
                 21 db3 | ONLINE | =       | off"
            ),
            "monitor 20 db2: moved away
             wanted 21 db3: status 'ONLINE' -> 'OFFLINE_SOFT'",
        );
    }
    check("10>20\n 20 db2 | | OFFLINE_HARD | on", "");
    // A row that only still shows is no place to have moved to.
    check(
        "10>20
         10 db3 | ONLINE |              |
         20 db3 |        | OFFLINE_HARD |
         21 db2 | ONLINE | =            | off",
        "wanted 21 db2: status 'ONLINE' -> 'OFFLINE_SOFT'
         staged hostgroup 10 db3:3306: added in mysql_servers",
    );
}

#[test]
fn prepared_changes_are_named_and_nothing_is_loaded() {
    let wanted = "wanted 21 db2: status 'ONLINE' -> 'OFFLINE_SOFT'";
    let cases = [
        (
            "30 db1 | ONLINE    |        |",
            "hostgroup 30 db1:3306: added",
        ),
        (
            "30 db1 |           | ONLINE |",
            "hostgroup 30 db1:3306: removed",
        ),
        (
            "30 db1 | ONLINE w5 | ONLINE |",
            "hostgroup 30 db1:3306: weight 1 -> 5",
        ),
        (
            "20 db2 | ONLINE w5 | ONLINE |",
            "hostgroup 20 db2:3306: weight 1 -> 5",
        ),
        (
            "20 db2 | ONLINE #x | ONLINE |",
            "hostgroup 20 db2:3306: comment '' -> 'x'",
        ),
        (
            "20 db2 | ONLINE max5 | ONLINE |",
            "hostgroup 20 db2:3306: max_connections 1000 -> 5",
        ),
        (
            "20 db2 | ONLINE    |        |",
            "hostgroup 20 db2:3306: added",
        ),
        (
            "20 db2 |           | ONLINE |",
            "hostgroup 20 db2:3306: removed",
        ),
        (
            "30 db1 | SHUNNED   | ONLINE |",
            "hostgroup 30 db1:3306: status 'ONLINE' -> 'SHUNNED'",
        ),
        (
            "20 db1 | OFFLINE_SOFT | ONLINE |",
            "hostgroup 20 db1:3306: status 'ONLINE' -> 'OFFLINE_SOFT'",
        ),
        (
            "30 db1 | ONLINE | OFFLINE_SOFT |",
            "hostgroup 30 db1:3306: status 'OFFLINE_SOFT' -> 'ONLINE'",
        ),
    ];
    for (row, staged) in cases {
        check(
            &format!("10>20\n {row}\n 21 db2 | ONLINE | = | off"),
            &format!("{wanted}\n staged {staged} in mysql_servers"),
        );
    }
}

#[test]
fn prepared_changes_of_managed_rows_are_not_loaded_early() {
    check(
        "10>20
         20 db2 | ONLINE w5    | ONLINE | on
         20 db3 | ONLINE       |        | on
         20 db4 |              | ONLINE | on
         21 db2 | ONLINE max70 | ONLINE | off",
        "staged hostgroup 20 db3:3306: added in mysql_servers
         staged hostgroup 20 db2:3306: weight 1 -> 5 in mysql_servers
         staged hostgroup 20 db4:3306: removed in mysql_servers
         staged hostgroup 21 db2:3306: max_connections 1000 -> 70 in mysql_servers",
    );
}

#[test]
fn what_an_overtaken_plan_left_in_memory_is_not_taken_for_a_prepared_change() {
    check(
        "10>20
         20 db2 | SHUNNED lag60 | ONLINE       | on
         20 db3 | ONLINE        | =            | off
         21 db2 | OFFLINE_SOFT  | ONLINE       | on
         21 db3 | ONLINE        |              | off
         9002 db1 | ONLINE w1   | ONLINE w9    | off w1",
        "wanted 20 db2: max_replication_lag 0 -> 60
         wanted 20 db3: status 'ONLINE' -> 'SHUNNED'
         wanted 21 db2: status 'OFFLINE_SOFT' -> 'ONLINE' in mysql_servers
         wanted 21 db3: added
         wanted 9002 db1: status 'ONLINE' -> 'OFFLINE_SOFT', weight 9 -> 1",
    );
}

#[test]
fn respected_rows_are_not_touched() {
    let text = "21 db2 | OFFLINE_SOFT | =       | on
         21 db3 | ONLINE       | =       | off";
    check_respecting(
        text,
        &[key(21, "db2")],
        "wanted 21 db3: status 'ONLINE' -> 'OFFLINE_SOFT'",
    );
    check_respecting(text, &[key(21, "db2"), key(21, "db3")], "");
}

#[test]
fn names_and_comments_are_only_ever_text() {
    let hostile = "x'; DELETE FROM mysql_servers; --";
    let mut snapshot = empty();
    let row = Row {
        comment: format!("it's \\' {hostile}"),
        ..Row::default()
    };
    for rows in [&mut snapshot.memory, &mut snapshot.runtime] {
        rows.insert(key(21, hostile), row.clone());
        rows.insert(key(30, "db1"), Row::default());
    }
    let wants: Vec<Want> = [21, 22]
        .into_iter()
        .map(|hostgroup| Want {
            key: key(hostgroup, hostile),
            on: hostgroup == 22,
            weight: None,
            lag_if_none: 0,
            create: Create::Unplaced,
        })
        .collect();
    let plan = super::plan(&snapshot, &wants, &Scope::default());
    assert_eq!(plan.changes.len(), 2);
    check_promises(&snapshot, &wants, &BTreeSet::new(), &plan);
    let after = carried_out(&snapshot, &plan);
    assert_eq!(after.runtime.len(), 3);
    assert_eq!(after.runtime[&key(21, hostile)].comment, row.comment);
}

#[test]
fn what_an_overtaken_plan_left_in_our_own_hostgroup_holds_nothing_back() {
    // 9002 is managed, and nobody wants anything of it just now.
    let (snapshot, wants) = table(
        "9002 db2 |        | OFFLINE_SOFT |
         21   db1 | ONLINE | =            | off",
    );
    let managed = BTreeSet::from([21, 9002]);
    let ours = Scope {
        managed,
        ..Scope::default()
    };
    assert_eq!(
        super::plan(&snapshot, &wants, &ours).staged,
        Vec::<String>::new()
    );
    let theirs = super::plan(&snapshot, &wants, &Scope::default());
    assert_eq!(theirs.staged.len(), 1, "{theirs:?}");
}

#[test]
fn a_server_that_is_configured_no_more_leaves_the_hostgroups_we_made_it_in() {
    let (mut snapshot, wants) = table(
        "21 db1 | ONLINE | = | on
         21 db2 | ONLINE | = |
         21 db3 | ONLINE | = |",
    );
    for rows in [&mut snapshot.memory, &mut snapshot.runtime] {
        rows.get_mut(&key(21, "db2")).expect("it is there").comment = super::MANAGED.to_owned();
    }
    let ours = Scope {
        managed: BTreeSet::from([21]),
        ..Scope::default()
    };
    let plan = super::plan(&snapshot, &wants, &ours);
    // db3 is somebody else's row.
    assert_eq!(plan.changes.len(), 1, "{plan:?}");
    assert!(plan.changes[0].server.starts_with("db2"), "{plan:?}");
    assert!(plan.changes[0].what.contains("OFFLINE_SOFT"), "{plan:?}");
    assert!(
        super::plan(&snapshot, &[], &ours).is_empty(),
        "a tier that is left alone"
    );
}

fn scope(respected: &BTreeSet<Key>) -> Scope {
    Scope {
        respected: respected.clone(),
        ..Scope::default()
    }
}

fn any_row() -> impl Strategy<Value = Row> {
    let status = prop_oneof![
        6 => Just(Status::Online),
        3 => Just(Status::Shunned),
        2 => Just(Status::OfflineSoft),
        1 => Just(Status::OfflineHard),
    ];
    let comment = prop_oneof![3 => Just(""), 1 => Just("it's")];
    let lag = prop_oneof![2 => Just(0), 1 => Just(60)];
    let max = prop_oneof![9 => Just(1000), 1 => Just(50)];
    (status, 0..3_u32, comment, lag, max).prop_map(|(status, weight, comment, lag, max)| Row {
        status,
        weight,
        comment: comment.to_owned(),
        max_replication_lag: lag,
        max_connections: max,
        ..Row::default()
    })
}

/// Memory and runtime of one row: mostly the same, or alike.
fn both() -> impl Strategy<Value = (Option<Row>, Option<Row>)> {
    let row = || prop::option::weighted(0.7, any_row());
    let like = (any_row(), any_row()).prop_map(|(memory, other)| {
        let runtime = Row {
            status: other.status,
            ..memory.clone()
        };
        (Some(memory), Some(runtime))
    });
    prop_oneof![
        25 => row().prop_map(|row| (row.clone(), row)),
        1 => like,
        1 => (row(), row()),
    ]
}

fn any_want() -> impl Strategy<Value = Option<Want>> {
    let create = prop_oneof![
        Just(Create::Never),
        Just(Create::Unplaced),
        Just(Create::Always)
    ];
    let weight = prop::option::weighted(0.3, 1..3_u32);
    let lag = prop_oneof![Just(0_u32), Just(60)];
    let want = (any::<bool>(), weight, lag, create).prop_map(|(on, weight, lag, create)| Want {
        key: key(0, ""),
        on,
        weight,
        lag_if_none: lag,
        create,
    });
    prop::option::weighted(0.8, want)
}

/// The monitor of 10 and 20 places a server: its row is copied, ONLINE.
fn place(snapshot: &mut Snapshot, server: &str, from: u32, to: u32) {
    if let Some(row) = snapshot.runtime.remove(&key(from, server)) {
        let placed = Row {
            status: Status::Online,
            ..row
        };
        if to == 10 {
            snapshot.runtime.insert(key(from, server), placed.clone());
        }
        snapshot.runtime.insert(key(to, server), placed);
    }
}

const SERVERS: [&str; 3] = ["db1", "db2", "db'3"];
const HOSTGROUPS: [u32; 5] = [10, 20, 21, 30, 9002];
const MANAGED: [u32; 3] = [20, 21, 9002];

type Cell = ((Option<Row>, Option<Row>), Option<Want>, bool);

fn assemble(cells: Vec<Cell>) -> (Snapshot, Vec<Want>, BTreeSet<Key>) {
    let (mut snapshot, mut wants, mut respected) = (empty(), Vec::new(), BTreeSet::new());
    snapshot.placements.push(Placement {
        monitor: Monitor::ReadOnly,
        writer: 10,
        reader: 20,
        others: Vec::new(),
    });
    for (number, ((memory, runtime), want, respect)) in cells.into_iter().enumerate() {
        let hostgroup = HOSTGROUPS[number / 3];
        let key = key(hostgroup, SERVERS[number % 3]);
        snapshot.memory.extend(memory.map(|row| (key.clone(), row)));
        snapshot
            .runtime
            .extend(runtime.map(|row| (key.clone(), row)));
        if respect {
            respected.insert(key.clone());
        }
        if MANAGED.contains(&hostgroup) {
            wants.extend(want.map(|want| Want { key, ..want }));
        }
    }
    (snapshot, wants, respected)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_plan_changes_only_what_is_managed_and_changes_it_once(
        cells in prop::collection::vec((both(), any_want(), prop::bool::weighted(0.1)), 15),
        promoted in prop::option::of(0..3_usize),
        demoted in prop::option::of(0..3_usize),
    ) {
        let (mut snapshot, wants, respected) = assemble(cells);
        if let Some(server) = demoted {
            place(&mut snapshot, SERVERS[server], 10, 20);
        }
        if let Some(server) = promoted {
            place(&mut snapshot, SERVERS[server], 20, 10);
        }
        let plan = super::plan(&snapshot, &wants, &scope(&respected));
        check_promises(&snapshot, &wants, &respected, &plan);
    }
}
