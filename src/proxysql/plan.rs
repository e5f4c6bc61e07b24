//! The difference between what is and what should be, as statements.
//!
//! Complete before anything is done, so that it can be shown (`causeway proxysql
//! plan`), tested on tables of cases, and applied mechanically. Three rules:
//!
//! - **Only a difference in force counts.** Rows are compared with
//!   `runtime_mysql_servers`. Without a difference there there is no statement
//!   and no LOAD.
//! - **A LOAD brings the whole table into force**, so memory must first say what
//!   is in force everywhere else. Where a monitor moved servers, memory follows
//!   it, or the LOAD would undo a promotion until the monitor looks again. Where
//!   memory differs otherwise, somebody is preparing a change: nothing is loaded
//!   until that is loaded or withdrawn.
//! - **Who is out stays connected.** Where a monitor looks at `read_only`, a
//!   server is taken out by SHUNNED, since monitors do not look at OFFLINE_SOFT
//!   servers and would miss their promotion. Elsewhere by OFFLINE_SOFT, which
//!   survives `SAVE … TO MEMORY` and spreads through a ProxySQL Cluster.
//!
//! Pure: no connection, no clock.

use std::collections::BTreeSet;

use serde::Serialize;

use super::rows::{Key, Row, Rows, Snapshot, Status};
use super::statement;
use super::want::{Create, Want};

/// One row that is to change, in words and as a statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The hostgroup.
    pub hostgroup: u32,
    /// `host:port`.
    pub server: String,
    /// What changes: `status ONLINE -> SHUNNED`, `added`, ….
    pub what: String,
    /// Why: wanted by a rule, or following a monitor.
    pub why: Why,
    /// The statement that does it.
    pub statement: String,
}

/// Why a row changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// A managed hostgroup should be so.
    Wanted,
    /// A monitor of ProxySQL placed the server; memory follows.
    Monitor,
}

impl Why {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wanted => "wanted",
            Self::Monitor => "follows a monitor",
        }
    }
}

/// What to do, or why not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The rows to change in memory, in order; a LOAD follows when there are any.
    pub changes: Vec<Change>,
    /// Changes in memory that somebody else has prepared and not loaded. While
    /// there are any, nothing is loaded.
    pub staged: Vec<String>,
    /// Rows are added, so that the change is worth keeping over a restart.
    pub adds_rows: bool,
}

impl Plan {
    /// True when everything is as it should be.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

/// Works out the plan for one instance. Rows in `respected` were changed by hand
/// and are left alone.
pub fn plan(snapshot: &Snapshot, wants: &[Want], respected: &BTreeSet<Key>) -> Plan {
    let wants: Vec<&Want> = wants
        .iter()
        .filter(|want| !respected.contains(&want.key))
        .collect();
    if wants.iter().all(|want| in_force(snapshot, want)) {
        return Plan::default();
    }
    let managed: BTreeSet<&Key> = wants.iter().map(|want| &want.key).collect();
    let mut plan = Plan::default();
    follow_monitors(snapshot, &managed, &mut plan);
    for want in wants {
        write(snapshot, want, &mut plan);
    }
    plan
}

/// Nothing would be gained by a LOAD for this row.
fn in_force(snapshot: &Snapshot, want: &Want) -> bool {
    let Some(row) = snapshot.runtime.get(&want.key) else {
        return !may_create(snapshot, want);
    };
    let weight = want.weight.is_none_or(|weight| weight == row.weight);
    let lag = want.lag_if_none == 0 || row.max_replication_lag != 0;
    weight && lag && status_in_force(snapshot, want, row)
}

fn status_in_force(snapshot: &Snapshot, want: &Want, row: &Row) -> bool {
    let memory = snapshot.memory.get(&want.key).map(|row| row.status);
    match (want.on, row.status) {
        (true, Status::Online) => true,
        // ProxySQL itself shunned it, and will try it again by itself.
        (true, Status::Shunned) => memory == Some(Status::Online),
        (false, status) => {
            status == out(snapshot, want.key.hostgroup) || status == Status::OfflineHard
        }
        (true, _) => false,
    }
}

fn may_create(snapshot: &Snapshot, want: &Want) -> bool {
    match want.create {
        Create::Never => false,
        Create::Unplaced => !snapshot.is_placed(want.key.hostgroup),
        Create::Always => true,
    }
}

/// The status that takes a server out of a hostgroup without ending its work.
fn out(snapshot: &Snapshot, hostgroup: u32) -> Status {
    if snapshot.is_placed(hostgroup) {
        Status::Shunned
    } else {
        Status::OfflineSoft
    }
}

/// Makes memory say what is wanted of one row.
fn write(snapshot: &Snapshot, want: &Want, plan: &mut Plan) {
    let key = &want.key;
    let status = if want.on {
        Status::Online
    } else {
        out(snapshot, key.hostgroup)
    };
    let memory = snapshot.memory.get(key);
    let (is_new, mut row) = match (memory, snapshot.runtime.get(key)) {
        (Some(row), _) => (false, row.clone()),
        (None, Some(row)) => (true, row.clone()),
        (None, None) if may_create(snapshot, want) => (true, template(snapshot, key)),
        (None, None) => return,
    };
    row.status = status;
    row.weight = want.weight.unwrap_or(row.weight);
    if row.max_replication_lag == 0 {
        row.max_replication_lag = want.lag_if_none;
    }
    let what = match (memory, snapshot.runtime.get(key)) {
        (Some(memory), _) if *memory == row && snapshot.runtime.get(key) == Some(&row) => return,
        (_, Some(runtime)) => difference(runtime, &row),
        (_, None) => "added".to_owned(),
    };
    let statement = if is_new {
        statement::insert(key, &row)
    } else {
        statement::update(key, &row)
    };
    plan.adds_rows |= is_new;
    plan.changes.push(change(key, what, Why::Wanted, statement));
}

/// A new row is like the server's row elsewhere, so that it connects alike.
fn template(snapshot: &Snapshot, key: &Key) -> Row {
    let same = |other: &(&Key, &Row)| other.0.address == key.address;
    let like = snapshot.runtime.iter().find(same);
    let like = like.map(|(_, row)| row.clone()).unwrap_or_default();
    Row {
        max_replication_lag: 0,
        comment: "managed by causeway".to_owned(),
        ..like
    }
}

/// Makes memory follow the monitors, and finds what somebody else prepares.
fn follow_monitors(snapshot: &Snapshot, managed: &BTreeSet<&Key>, plan: &mut Plan) {
    let keys: BTreeSet<&Key> = snapshot
        .memory
        .keys()
        .chain(snapshot.runtime.keys())
        .collect();
    for key in keys.into_iter().filter(|key| !managed.contains(key)) {
        let (memory, runtime) = (snapshot.memory.get(key), snapshot.runtime.get(key));
        match (memory, runtime) {
            (Some(memory), Some(runtime)) => follow_row(snapshot, key, memory, runtime, plan),
            (Some(_), None) if lives_elsewhere(snapshot, &snapshot.runtime, key) => {
                let statement = statement::delete(key);
                plan.changes
                    .push(change(key, "moved away".into(), Why::Monitor, statement));
            }
            (Some(_), None) => plan.staged.push(format!("{key}: added in mysql_servers")),
            // A removed row shows until its connections are gone.
            (None, Some(row)) if row.status == Status::OfflineHard => {}
            (None, Some(row)) if lives_elsewhere(snapshot, &snapshot.memory, key) => {
                let statement = statement::insert(key, row);
                plan.changes
                    .push(change(key, "moved here".into(), Why::Monitor, statement));
            }
            (None, Some(_)) => plan.staged.push(format!("{key}: removed in mysql_servers")),
            (None, None) => {}
        }
    }
}

fn follow_row(snapshot: &Snapshot, key: &Key, memory: &Row, runtime: &Row, plan: &mut Plan) {
    let same_status = Row {
        status: memory.status,
        ..runtime.clone()
    };
    if *memory != same_status {
        // Monitors copy weight and comment when they place a server.
        if snapshot.is_placed(key.hostgroup) && *memory == placed(memory, &same_status) {
            let statement = statement::update(key, &same_status);
            let what = difference(memory, &same_status);
            plan.changes
                .push(change(key, what, Why::Monitor, statement));
        } else {
            let what = difference(runtime, memory);
            plan.staged.push(format!("{key}: {what} in mysql_servers"));
        }
        return;
    }
    match (memory.status, runtime.status) {
        (memory, runtime) if memory == runtime => {}
        // ProxySQL shunned it after errors, and will try it again.
        (Status::Online, Status::Shunned) => {}
        (Status::Shunned, Status::Online) if snapshot.is_placed(key.hostgroup) => {
            let statement = statement::update(key, runtime);
            let what = difference(memory, runtime);
            plan.changes
                .push(change(key, what, Why::Monitor, statement));
        }
        _ => {
            let what = difference(runtime, memory);
            plan.staged.push(format!("{key}: {what} in mysql_servers"));
        }
    }
}

/// `memory` but for what monitors copy from another row of the server.
fn placed(memory: &Row, runtime: &Row) -> Row {
    Row {
        weight: memory.weight,
        comment: memory.comment.clone(),
        ..runtime.clone()
    }
}

/// The server is in another hostgroup of the same monitor.
fn lives_elsewhere(snapshot: &Snapshot, rows: &Rows, key: &Key) -> bool {
    let placement = snapshot
        .placements
        .iter()
        .find(|placement| placement.holds(key.hostgroup));
    placement.is_some_and(|placement| {
        rows.keys().any(|other| {
            other != key && other.address == key.address && placement.holds(other.hostgroup)
        })
    })
}

fn change(key: &Key, what: String, why: Why, statement: String) -> Change {
    Change {
        hostgroup: key.hostgroup,
        server: key.address.to_string(),
        what,
        why,
        statement,
    }
}

/// The columns in which two rows differ, in words.
fn difference(from: &Row, to: &Row) -> String {
    let (from, to) = (statement::columns(from), statement::columns(to));
    let differing = from.iter().zip(&to).filter(|(from, to)| from != to);
    let words: Vec<String> = differing
        .map(|((name, from), (_, to))| format!("{name} {from} -> {to}"))
        .collect();
    if words.is_empty() {
        "prepared in memory, not in force".to_owned()
    } else {
        words.join(", ")
    }
}

#[cfg(test)]
#[path = "tests/plan.rs"]
mod tests;
