//! Telling a change by somebody's hand from one by a monitor. Pure.

use std::collections::BTreeMap;

use super::rows::{Key, Row, Snapshot, Status};
use super::want::Want;

/// How the managed rows stood when they were last as wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct Known(BTreeMap<Key, Option<Row>>);

impl Known {
    pub(super) fn of(snapshot: &Snapshot, wants: &[Want]) -> Self {
        let row = |want: &Want| (want.key.clone(), snapshot.runtime.get(&want.key).cloned());
        Self(wants.iter().map(row).collect())
    }
}

/// The managed rows that differ from how they were left, and that no monitor
/// and no error of the server explains.
pub(super) fn changed(known: &Known, snapshot: &Snapshot) -> Vec<Key> {
    let differs = |(key, before): &(&Key, &Option<Row>)| {
        let now = snapshot.runtime.get(*key);
        match (before, now) {
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
        // ProxySQL shuns after errors, and takes back what it shunned. A
        // monitor that places a server makes it ONLINE.
        (Status::Online, Status::Shunned) => {
            let memory = snapshot.memory.get(key).map(|row| row.status);
            memory == Some(Status::Shunned)
        }
        (Status::Shunned, Status::Online) => !snapshot.is_placed(key.hostgroup),
        _ => true,
    };
    weight || status
}

/// The row takes work, or not, as is wanted.
pub(super) fn as_wanted(snapshot: &Snapshot, wants: &[Want], key: &Key) -> bool {
    let Some(want) = wants.iter().find(|want| want.key == *key) else {
        return true;
    };
    match snapshot.runtime.get(key) {
        Some(row) => {
            (row.status == Status::Online) == want.on
                && want.weight.is_none_or(|weight| weight == row.weight)
        }
        None => !want.on,
    }
}
