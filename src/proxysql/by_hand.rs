//! Telling a change by somebody's hand from one by a monitor. Pure.

use std::collections::BTreeMap;

use super::rows::{Key, Row, Snapshot, Status};
use super::want::Want;

/// How the managed rows stood when they were last as wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct Known(BTreeMap<Key, Option<Row>>);

impl Known {
    pub(super) fn of(snapshot: &Snapshot, wants: &[Want]) -> Self {
        let row = |want: &Want| (want.key.clone(), as_set(snapshot, &want.key));
        Self(wants.iter().map(row).collect())
    }
}

/// The row in force as somebody set it: what ProxySQL shunned by itself counts
/// as ONLINE, since it takes that back by itself.
fn as_set(snapshot: &Snapshot, key: &Key) -> Option<Row> {
    let mut row = snapshot.in_runtime(key)?.clone();
    let said = snapshot.memory.get(key).map(|row| row.status);
    if row.status == Status::Shunned && said != Some(Status::Shunned) {
        row.status = Status::Online;
    }
    Some(row)
}

/// The managed rows that differ from how they were left, and that no monitor
/// and no error of the server explains.
pub(super) fn changed(known: &Known, snapshot: &Snapshot) -> Vec<Key> {
    let differs = |(key, before): &(&Key, &Option<Row>)| {
        match (before, &as_set(snapshot, key)) {
            (Some(before), Some(now)) => by_hand(snapshot, key, before, now),
            (None, None) => false,
            // Monitors add and remove rows where they place servers.
            _ => !snapshot.is_placed(key.hostgroup),
        }
    };
    known
        .0
        .iter()
        .filter(differs)
        .map(|(key, _)| key.clone())
        .collect()
}

fn by_hand(snapshot: &Snapshot, key: &Key, before: &Row, now: &Row) -> bool {
    let weight = before.weight != now.weight && !snapshot.is_placed(key.hostgroup);
    let status = match (before.status, now.status) {
        (before, now) if before == now => false,
        // A monitor that places a server makes it ONLINE.
        (Status::Shunned, Status::Online) => !snapshot.is_placed(key.hostgroup),
        _ => true,
    };
    weight || status
}

/// The row takes work, or not, as is wanted. Of a row that nobody wants now this
/// cannot be said.
pub(super) fn as_wanted(snapshot: &Snapshot, wants: &[Want], key: &Key) -> bool {
    let Some(want) = wants.iter().find(|want| want.key == *key) else {
        return false;
    };
    match snapshot.runtime.get(key) {
        Some(row) => {
            (row.status == Status::Online) == want.on
                && want.weight.is_none_or(|weight| weight == row.weight)
        }
        None => !want.on,
    }
}

#[cfg(test)]
#[path = "tests/by_hand.rs"]
mod tests;
