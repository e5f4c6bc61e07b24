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
use std::fmt;

use serde::Serialize;

use super::follow::{self, follow_monitors};
use super::rows::{Key, Row, Snapshot, Status};
use super::statement;
use super::survey::MANAGED;
use super::want::{Create, WEIGHT_OWN, Want};

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

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "hostgroup {} {}: {}",
            self.hostgroup, self.server, self.what
        )
    }
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

    pub(super) fn push(&mut self, key: &Key, what: String, why: Why, statement: String) {
        self.changes.push(Change {
            hostgroup: key.hostgroup,
            server: key.address.to_string(),
            what,
            why,
            statement,
        });
    }
}

/// What a plan needs to know beside the tables and the wants.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Rows that somebody changed by hand, and that are left alone.
    pub respected: BTreeSet<Key>,
    /// The managed hostgroups, wanted or not just now.
    pub managed: BTreeSet<u32>,
}

/// Works out the plan for one instance.
pub fn plan(snapshot: &Snapshot, wants: &[Want], scope: &Scope) -> Plan {
    let orphans = orphans(snapshot, wants, scope);
    let ours = |want: &&Want| !scope.respected.contains(&want.key) && is_ours(snapshot, want);
    let wants: Vec<&Want> = wants.iter().chain(&orphans).filter(ours).collect();
    if wants.iter().all(|want| in_force(snapshot, want)) {
        return Plan::default();
    }
    let wanted: BTreeSet<&Key> = wants.iter().map(|want| &want.key).collect();
    // In hostgroups of our own nobody else prepares anything: what differs there
    // is left of a plan that was overtaken, or is respected.
    let is_own =
        |key: &Key| scope.managed.contains(&key.hostgroup) && !snapshot.is_placed(key.hostgroup);
    let mut plan = Plan::default();
    let skip = |key: &Key| wanted.contains(key) || is_own(key);
    follow_monitors(snapshot, &skip, &mut plan);
    for want in wants {
        write(snapshot, want, &mut plan);
    }
    plan
}

/// What somebody prepares outside of the `managed` hostgroups.
pub(super) fn prepared(snapshot: &Snapshot, managed: &BTreeSet<u32>) -> Vec<String> {
    let mut plan = Plan::default();
    follow_monitors(snapshot, &|key| managed.contains(&key.hostgroup), &mut plan);
    plan.staged
}

/// Rows that we made for a server that is configured no more: nobody measures it,
/// so it takes no work in hostgroups of which something is wanted.
fn orphans(snapshot: &Snapshot, wants: &[Want], scope: &Scope) -> Vec<Want> {
    let wanted: BTreeSet<&Key> = wants.iter().map(|want| &want.key).collect();
    let active: BTreeSet<u32> = wants.iter().map(|want| want.key.hostgroup).collect();
    let is_orphan = |(key, row): &(&Key, &Row)| {
        row.comment == MANAGED
            && scope.managed.contains(&key.hostgroup)
            && active.contains(&key.hostgroup)
            && !wanted.contains(key)
    };
    let off = |(key, _): (&Key, &Row)| Want {
        key: key.clone(),
        on: false,
        weight: None,
        lag_if_none: 0,
        create: Create::Never,
    };
    snapshot.runtime.iter().filter(is_orphan).map(off).collect()
}

/// False where a monitor and the administrator decide who is in, and the server
/// is not: what memory says of it is theirs.
fn is_ours(snapshot: &Snapshot, want: &Want) -> bool {
    let key = &want.key;
    !snapshot.is_placed(key.hostgroup)
        || snapshot.in_runtime(key).is_some()
        || may_create(snapshot, want)
}

/// Nothing would be gained by a LOAD for this row.
fn in_force(snapshot: &Snapshot, want: &Want) -> bool {
    let Some(row) = snapshot.in_runtime(&want.key) else {
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
        // What ProxySQL shunned by itself it also takes back by itself.
        (false, Status::Shunned) => {
            snapshot.is_placed(want.key.hostgroup) && memory == Some(Status::Shunned)
        }
        (false, Status::OfflineHard) => true,
        (false, status) => status == out(snapshot, want.key.hostgroup),
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
    let (memory, runtime) = (snapshot.memory.get(key), snapshot.in_runtime(key));
    let wanted = |row: &Row| as_wanted(snapshot, want, row);
    let row = match (memory, runtime) {
        (Some(memory), Some(runtime)) => {
            let (memory, mut runtime) = (wanted(memory), wanted(runtime));
            if runtime.max_replication_lag == 0 {
                // Put there by a plan that was overtaken before its LOAD.
                runtime.max_replication_lag = memory.max_replication_lag;
            }
            follow::row(snapshot, key, &memory, &runtime)
        }
        (None, Some(_)) if is_taken_out(snapshot, want) => None,
        (None, Some(row)) | (Some(row), None) => Some(wanted(row)),
        (None, None) if may_create(snapshot, want) => Some(wanted(&template(snapshot, key))),
        (None, None) => return,
    };
    let Some(row) = row else {
        plan.staged.push(follow::staged(key, memory, runtime));
        return;
    };
    if memory == Some(&row) && in_force(snapshot, want) {
        return;
    }
    let what = match (memory, runtime) {
        (_, None) => "added".to_owned(),
        (_, Some(runtime)) if *runtime != row => difference(runtime, &row),
        // In force already: the next LOAD, by whomever, is to leave it so.
        (Some(memory), _) => format!("{} in mysql_servers", difference(memory, &row)),
        (None, _) => "put back in mysql_servers".to_owned(),
    };
    let statement = if memory.is_none() {
        statement::insert(key, &row)
    } else {
        statement::update(key, &row)
    };
    plan.adds_rows |= memory.is_none();
    plan.push(key, what, Why::Wanted, statement);
}

/// The row is in force and gone from memory, where neither a monitor nor we put
/// it: the administrator is taking it out.
fn is_taken_out(snapshot: &Snapshot, want: &Want) -> bool {
    snapshot.is_placed(want.key.hostgroup)
        && !may_create(snapshot, want)
        && !follow::lives_elsewhere(snapshot, &snapshot.memory, &want.key)
}

/// `row` with what is wanted of it; the other columns are not ours.
fn as_wanted(snapshot: &Snapshot, want: &Want, row: &Row) -> Row {
    let hostgroup = want.key.hostgroup;
    let mut row = row.clone();
    row.status = if want.on {
        Status::Online
    } else {
        out(snapshot, hostgroup)
    };
    row.weight = want.weight.unwrap_or(row.weight);
    if row.max_replication_lag == 0 {
        row.max_replication_lag = want.lag_if_none;
    }
    row
}

/// A new row is like the server's row elsewhere, so that it connects alike; its
/// weight too, but for a weight that is only right in a hint hostgroup.
fn template(snapshot: &Snapshot, key: &Key) -> Row {
    let same = |other: &(&Key, &Row)| other.0.address == key.address;
    let ordinary = |other: &(&Key, &Row)| other.1.weight != WEIGHT_OWN;
    let rows = || snapshot.runtime.iter().filter(same);
    let like = rows().find(ordinary).or_else(|| rows().next());
    let like = like.map(|(_, row)| row.clone()).unwrap_or_default();
    Row {
        max_replication_lag: 0,
        weight: if like.weight == WEIGHT_OWN {
            1
        } else {
            like.weight
        },
        comment: MANAGED.to_owned(),
        ..like
    }
}

/// The columns in which two rows differ, in words.
pub(super) fn difference(from: &Row, to: &Row) -> String {
    let (from, to) = (statement::columns(from), statement::columns(to));
    let differing = from.iter().zip(&to).filter(|(from, to)| from != to);
    let words: Vec<String> = differing
        .map(|((name, from), (_, to))| format!("{name} {from} -> {to}"))
        .collect();
    words.join(", ")
}

#[cfg(test)]
#[path = "tests/plan.rs"]
mod tests;
