//! Who is the source: found out from who replicates from whom, never configured.
//!
//! A read sent to a wrong "source" would be stale without anybody noticing, so
//! everything short of certainty is an error with a name, not a guess.

use std::fmt;

use super::status::{Channel, Status};
use crate::gtid::Uuid;

/// A server's part in replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Takes the writes.
    Source,
    /// Applies what another server wrote.
    Replica,
    /// Not known, or neither.
    Unknown,
}

impl Role {
    /// The name used in JSON, metrics and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Replica => "replica",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why there is no source to send reads to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// No reachable server accepts writes.
    #[error("no source: none of the reachable servers is writable (read_only=OFF)")]
    NoneWritable,
    /// Several servers accept writes and none replicates from another.
    #[error("ambiguous source: {} all accept writes; set super_read_only=ON on the replicas", .0.join(", "))]
    Ambiguous(Vec<String>),
    /// One server accepts writes, but nothing proves that it is the source.
    #[error("unconfirmed source: {name} accepts writes, but {why}")]
    Unconfirmed {
        /// The writable server.
        name: String,
        /// What keeps it from being confirmed.
        why: String,
    },
}

/// What role discovery looks at, one a server.
pub(crate) struct Facts<'a> {
    pub(crate) name: &'a str,
    pub(crate) uuid: Option<Uuid>,
    /// `None` while the server cannot be reached: no part in the decision.
    pub(crate) status: Option<&'a Status>,
    /// This server was the confirmed source before, in this process.
    pub(crate) was_source: bool,
}

/// Finds the one source among `fleet`, as an index, or says why it cannot.
pub(crate) fn source_of(fleet: &[Facts<'_>]) -> Result<usize, SourceError> {
    let candidates: Vec<usize> = (0..fleet.len())
        .filter(|&i| is_candidate(fleet, i))
        .collect();
    match candidates[..] {
        [] => Err(SourceError::NoneWritable),
        [one] => confirm(fleet, one).map(|()| one),
        _ => Err(SourceError::Ambiguous(
            candidates
                .iter()
                .map(|&i| fleet[i].name.to_owned())
                .collect(),
        )),
    }
}

/// Writable, and not itself a replica of anybody.
fn is_candidate(fleet: &[Facts<'_>], index: usize) -> bool {
    let Some(status) = fleet[index].status else {
        return false;
    };
    !status.read_only
        && !status
            .channels
            .iter()
            .any(|channel| replicates(fleet, index, channel))
}

/// A channel makes its server a replica when it is active, or when it is
/// configured to follow a reachable server that does not follow it in turn.
/// Left over, stopped channels of a promoted server do not count.
fn replicates(fleet: &[Facts<'_>], index: usize, channel: &Channel) -> bool {
    let upstream = channel.source_uuid.and_then(|uuid| index_of(fleet, uuid));
    match upstream {
        Some(up) if fleet[up].status.is_some() => {
            let read_only = fleet[up].status.is_some_and(|status| status.read_only);
            !(read_only && follows(fleet, up, index))
        }
        _ => channel.active(),
    }
}

fn index_of(fleet: &[Facts<'_>], uuid: Uuid) -> Option<usize> {
    fleet.iter().position(|facts| facts.uuid == Some(uuid))
}

/// True when `from` replicates, directly or through others, from `to`.
fn follows(fleet: &[Facts<'_>], from: usize, to: usize) -> bool {
    let mut seen = vec![false; fleet.len()];
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        if std::mem::replace(&mut seen[at], true) {
            continue;
        }
        for channel in fleet[at].status.iter().flat_map(|status| &status.channels) {
            match channel.source_uuid.and_then(|uuid| index_of(fleet, uuid)) {
                Some(up) if up == to => return true,
                Some(up) => open.push(up),
                None => {}
            }
        }
    }
    false
}

/// The only candidate still needs a positive sign that it is the source.
fn confirm(fleet: &[Facts<'_>], source: usize) -> Result<(), SourceError> {
    let others: Vec<usize> = (0..fleet.len())
        .filter(|&i| i != source && fleet[i].status.is_some())
        .collect();
    let followed = others.iter().any(|&i| follows(fleet, i, source));
    let all_seen = others.len() + 1 == fleet.len();
    let stranger = others
        .iter()
        .find(|&&i| has_active_channel(fleet, i) && !follows(fleet, i, source));
    if followed || (fleet[source].was_source && stranger.is_none()) {
        return Ok(());
    }
    let why = match stranger {
        Some(&other) => format!("{} replicates from another server", fleet[other].name),
        None if all_seen => return Ok(()),
        None => "no reachable server replicates from it and others cannot be reached".to_owned(),
    };
    Err(SourceError::Unconfirmed {
        name: fleet[source].name.to_owned(),
        why,
    })
}

fn has_active_channel(fleet: &[Facts<'_>], index: usize) -> bool {
    fleet[index]
        .status
        .is_some_and(|status| status.channels.iter().any(Channel::active))
}
