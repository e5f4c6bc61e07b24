//! Rows that are not to change: memory follows what monitors did to them, so
//! that a LOAD does not undo it, and what somebody else prepares is found.
//!
//! A monitor that places a server copies the server's row of the other hostgroup
//! and makes it ONLINE. Any other difference between memory and runtime was made
//! in memory, by hand.
//!
//! Some differences can be either, and count as the monitor's: a row added or
//! removed in memory, of a server that is in another hostgroup of the same
//! monitor; a weight or comment equal to that of such a row; SHUNNED in memory
//! where ONLINE is in force. ONLINE in memory where SHUNNED is in force counts as
//! ProxySQL's own shun. A tier with a hostgroup of its own has no such doubt.
//!
//! Pure.

use std::collections::BTreeSet;

use super::plan::{Plan, Why, difference};
use super::rows::{Key, Placement, Row, Rows, Snapshot, Status};
use super::statement;

/// Makes memory follow the monitors, and finds what somebody else prepares; rows
/// to `skip` are somebody else's business.
pub(super) fn follow_monitors(snapshot: &Snapshot, skip: &impl Fn(&Key) -> bool, plan: &mut Plan) {
    let keys: BTreeSet<&Key> = snapshot
        .memory
        .keys()
        .chain(snapshot.runtime.keys())
        .collect();
    for key in keys.into_iter().filter(|key| !skip(key)) {
        follow_one(snapshot, key, plan);
    }
}

fn follow_one(snapshot: &Snapshot, key: &Key, plan: &mut Plan) {
    let (memory, runtime) = (snapshot.memory.get(key), snapshot.in_runtime(key));
    match (memory, runtime) {
        (Some(memory), Some(runtime)) => match row(snapshot, key, memory, runtime) {
            Some(row) if row == *memory => {}
            Some(row) => {
                let statement = statement::update(key, &row);
                plan.push(key, difference(memory, &row), Why::Monitor, statement);
            }
            None => plan.staged.push(staged(key, Some(memory), Some(runtime))),
        },
        (Some(_), None) if lives_elsewhere(snapshot, &snapshot.runtime, key) => {
            let statement = statement::delete(key);
            plan.push(key, "moved away".into(), Why::Monitor, statement);
        }
        (None, Some(row)) if lives_elsewhere(snapshot, &snapshot.memory, key) => {
            let statement = statement::insert(key, &as_placed(row));
            plan.push(key, "moved here".into(), Why::Monitor, statement);
        }
        (None, None) => {}
        _ => plan.staged.push(staged(key, memory, runtime)),
    }
}

/// What memory should say of a row that is not to change; `None` when somebody
/// is preparing a change of it.
pub(super) fn row(snapshot: &Snapshot, key: &Key, memory: &Row, runtime: &Row) -> Option<Row> {
    let status = match (memory.status, runtime.status) {
        (memory, runtime) if memory == runtime => memory,
        // ProxySQL shunned it after errors, and will try it again.
        (Status::Online, Status::Shunned) => Status::Online,
        (Status::Shunned, Status::Online) if snapshot.is_placed(key.hostgroup) => Status::Online,
        _ => return None,
    };
    let with = |row: &Row| Row {
        status,
        ..row.clone()
    };
    let same = with(memory) == with(runtime);
    (same || is_copied(snapshot, key, memory, runtime)).then(|| with(runtime))
}

/// A monitor gave the row the weight and the comment of the server's row in
/// another of its hostgroups.
fn is_copied(snapshot: &Snapshot, key: &Key, memory: &Row, runtime: &Row) -> bool {
    let uncopied = Row {
        status: memory.status,
        weight: memory.weight,
        comment: memory.comment.clone(),
        ..runtime.clone()
    };
    let rows = elsewhere(snapshot, &snapshot.runtime, key);
    let mut rows = rows.chain(elsewhere(snapshot, &snapshot.memory, key));
    *memory == uncopied
        && rows.any(|row| row.weight == runtime.weight && row.comment == runtime.comment)
}

/// Nobody shunned a row of which memory says nothing but ProxySQL itself.
fn as_placed(row: &Row) -> Row {
    let status = match row.status {
        Status::Shunned => Status::Online,
        status => status,
    };
    Row {
        status,
        ..row.clone()
    }
}

/// The server is in another hostgroup of the same monitor.
pub(super) fn lives_elsewhere(snapshot: &Snapshot, rows: &Rows, key: &Key) -> bool {
    elsewhere(snapshot, rows, key).next().is_some()
}

/// The server's rows in the other hostgroups of the same monitor.
fn elsewhere<'a>(
    snapshot: &'a Snapshot,
    rows: &'a Rows,
    key: &'a Key,
) -> impl Iterator<Item = &'a Row> {
    let holds = |placement: &&Placement| placement.holds(key.hostgroup);
    let placement = snapshot.placements.iter().find(holds);
    rows.iter()
        .filter(move |(other, row)| {
            *other != key
                && other.address == key.address
                && row.status != Status::OfflineHard
                && placement.is_some_and(|placement| placement.holds(other.hostgroup))
        })
        .map(|(_, row)| row)
}

/// The change that somebody prepares, in words.
pub(super) fn staged(key: &Key, memory: Option<&Row>, runtime: Option<&Row>) -> String {
    let what = match (memory, runtime) {
        (Some(memory), Some(runtime)) => difference(runtime, memory),
        (Some(_), None) => "added".to_owned(),
        _ => "removed".to_owned(),
    };
    format!("{key}: {what} in mysql_servers")
}
