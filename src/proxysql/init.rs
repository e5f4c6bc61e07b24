//! The configuration that fits an instance of ProxySQL, as text.
//!
//! ProxySQL knows the servers, the pairs of hostgroups and a login of its
//! monitor. What is printed is an ordinary configuration file, commented, that
//! [`Config::parse`](crate::config::Config::parse) reads.
//!
//! Two processes that learn from one ProxySQL must number the hint hostgroups
//! alike, also after a failover and a restart. So a server that has a hint
//! hostgroup already keeps its number, and where that cannot be, other
//! hostgroups are used.
//!
//! Pure: no connection, no clock.

mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::rows::{Address, Placement, Status};
use super::survey::{MANAGED, Survey};
use super::want::WEIGHT_OWN;

pub use text::text;

/// Where the password of `[mysql]` is expected.
pub const MYSQL_PASSWORD_ENV: &str = "CAUSEWAY_MYSQL_PASSWORD";
/// Where the password of `[proxysql]` is expected, unless said otherwise.
pub const PROXYSQL_PASSWORD_ENV: &str = "CAUSEWAY_PROXYSQL_PASSWORD";
/// The first base of hint hostgroups that is tried, and the step to the next.
const BASE_FIRST: u32 = 9000;
const BASE_STEP: u32 = 1000;
const BASES_TRIED: u32 = 1000;
/// Hostgroups kept free above the base, for servers to come.
const ROOM_MIN: usize = 100;

/// Why no configuration can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InitError {
    /// There are no rows.
    #[error("runtime_mysql_servers of ProxySQL names no server that Causeway could reach")]
    NoServers,
    /// More than one pair of hostgroups.
    #[error(
        "ProxySQL serves several topologies, and a Causeway serves one: choose with \
         --writer-hostgroup, which is one of {0:?}"
    )]
    SeveralTopologies(Vec<u32>),
    /// The chosen hostgroup is of no pair.
    #[error("no pair of hostgroups has the writer hostgroup {wanted}; there are {known:?}")]
    NoSuchWriter {
        /// What was asked for.
        wanted: u32,
        /// Writer hostgroups of the pairs.
        known: Vec<u32>,
    },
    /// Nothing is left.
    #[error("no range of hostgroups is free for hints")]
    NoFreeHostgroups,
}

/// How the file names the password of the admin interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PasswordKey {
    /// `password_env`.
    Env(String),
    /// `password_file`.
    File(PathBuf),
}

/// The admin interface that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// `host:port`.
    pub address: String,
    /// Its user.
    pub user: String,
    /// Its password.
    pub password: PasswordKey,
}

/// A configuration, before it is text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// The servers, in order.
    pub servers: Vec<Address>,
    /// Those in a writer hostgroup now.
    pub writers: BTreeSet<Address>,
    /// Servers of which ProxySQL has rows, left out.
    pub left_out: BTreeSet<Address>,
    /// The base of the hint hostgroups.
    pub base: u32,
    /// Pairs, as writer and reader hostgroup.
    pub pairs: Vec<(u32, u32)>,
    /// ProxySQL talks TLS to every server.
    pub tls: bool,
}

/// What fits the instance. `writer` chooses among several topologies.
///
/// # Errors
/// When there is no server, or no single topology, or no free hostgroup.
pub fn draft(survey: &Survey, writer: Option<u32>) -> Result<Draft, InitError> {
    let placement = chosen(&survey.snapshot.placements, writer)?;
    let several = survey.snapshot.placements.len() > 1;
    let belongs = |hostgroup| !several || placement.is_some_and(|pair| pair.holds(hostgroup));
    let rows = || {
        let of_others = |comment: &str| comment != MANAGED;
        let rows = survey
            .rows()
            .filter(move |(_, row)| of_others(&row.comment));
        // Port 0 is a Unix socket of ProxySQL's own host.
        rows.filter(|(key, _)| key.address.port != 0)
    };
    let all: BTreeSet<&Address> = rows().map(|(key, _)| &key.address).collect();
    let (ours, tls): (BTreeSet<&Address>, Vec<bool>) = rows()
        .filter(|(key, _)| belongs(key.hostgroup))
        .map(|(key, row)| (&key.address, row.use_ssl != 0))
        .unzip();
    if ours.is_empty() {
        return Err(InitError::NoServers);
    }
    let writes = |hostgroup| placement.is_some_and(|pair| pair.writer == hostgroup);
    let writers: BTreeSet<Address> = rows()
        .filter(|(key, row)| writes(key.hostgroup) && row.status == Status::Online)
        .map(|(key, _)| key.address.clone())
        .collect();
    let (base, servers) = numbered(survey, &in_order(&ours, &writers))?;
    Ok(Draft {
        left_out: all.difference(&ours).copied().cloned().collect(),
        servers,
        writers,
        base,
        pairs: placement
            .map(|pair| (pair.writer, pair.reader))
            .into_iter()
            .collect(),
        tls: tls.iter().all(|tls| *tls),
    })
}

/// The pair of the one topology, if there is a pair at all.
fn chosen(placements: &[Placement], writer: Option<u32>) -> Result<Option<&Placement>, InitError> {
    let known = || placements.iter().map(|pair| pair.writer).collect();
    match (writer, placements) {
        (None, []) => Ok(None),
        (None, [one]) => Ok(Some(one)),
        (None, _) => Err(InitError::SeveralTopologies(known())),
        (Some(wanted), _) => {
            let found = placements.iter().find(|pair| pair.writer == wanted);
            let missing = || InitError::NoSuchWriter {
                wanted,
                known: known(),
            };
            found.map(Some).ok_or_else(missing)
        }
    }
}

/// Who writes now comes first, then by address.
fn in_order(ours: &BTreeSet<&Address>, writers: &BTreeSet<Address>) -> Vec<Address> {
    let (first, rest): (Vec<&Address>, Vec<&Address>) =
        ours.iter().partition(|address| writers.contains(**address));
    first.into_iter().chain(rest).cloned().collect()
}

/// A base of which every hostgroup is free, or holds what it should, with the
/// servers in the order that it asks for.
fn numbered(survey: &Survey, servers: &[Address]) -> Result<(u32, Vec<Address>), InitError> {
    let room = u32::try_from(servers.len().max(ROOM_MIN)).unwrap_or(u32::MAX);
    for step in 0..BASES_TRIED {
        let base = BASE_FIRST + step * BASE_STEP;
        let Some(last) = base.checked_add(room) else {
            break;
        };
        let is_free = (base + 1..=last).all(|hostgroup| survey.user_of(hostgroup).is_none());
        if is_free && let Some(servers) = keep_numbers(survey, base, last, servers) {
            return Ok((base, servers));
        }
    }
    Err(InitError::NoFreeHostgroups)
}

/// The servers so ordered that those with a hint hostgroup above `base` keep it;
/// `None` when that leaves a gap.
fn keep_numbers(
    survey: &Survey,
    base: u32,
    last: u32,
    servers: &[Address],
) -> Option<Vec<Address>> {
    let own = survey.rows().filter(|(key, row)| {
        row.comment == MANAGED
            && row.weight == WEIGHT_OWN
            && (base + 1..=last).contains(&key.hostgroup)
    });
    let mut kept: BTreeMap<usize, &Address> = BTreeMap::new();
    for (key, _) in own {
        let number = usize::try_from(key.hostgroup - base - 1).ok()?;
        if number >= servers.len() || !servers.contains(&key.address) {
            return None;
        }
        if kept.insert(number, &key.address).is_some() {
            return None;
        }
    }
    let taken: BTreeSet<&Address> = kept.values().copied().collect();
    if taken.len() < kept.len() {
        return None;
    }
    let mut rest = servers.iter().filter(|address| !taken.contains(address));
    (0..servers.len())
        .map(|number| kept.get(&number).copied().or_else(|| rest.next()).cloned())
        .collect()
}

#[cfg(test)]
#[path = "tests/init.rs"]
mod tests;
