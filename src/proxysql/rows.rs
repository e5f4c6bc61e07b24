//! ProxySQL's tables as values: what was read from one instance.
//!
//! Columns and their meaning: ProxySQL's documentation of the main database.
//! Pure: no connection, no clock.

use std::collections::BTreeMap;
use std::fmt;

use super::version::Version;
use crate::fleet::{ServerSpec, split_address};

/// One server as ProxySQL names it: host and port, compared as text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// `hostname`.
    pub host: String,
    /// `port`.
    pub port: u16,
}

impl Address {
    /// A configured server, whose address was checked when the file was read.
    pub fn of(server: &ServerSpec) -> Self {
        let (host, port) = split_address(&server.address).unwrap_or((&server.address, 0));
        Self {
            host: host.to_owned(),
            port,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// The primary key of `mysql_servers`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// `hostgroup_id`.
    pub hostgroup: u32,
    /// `hostname` and `port`.
    pub address: Address,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hostgroup {} {}", self.hostgroup, self.address)
    }
}

/// `mysql_servers.status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Takes new work.
    Online,
    /// Takes no new work; what runs goes on. Also what ProxySQL itself sets
    /// after errors.
    Shunned,
    /// Takes no new work; what runs goes on; the connections are kept.
    OfflineSoft,
    /// Takes no work; what runs is ended.
    OfflineHard,
}

impl Status {
    /// The name in ProxySQL's tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Online => "ONLINE",
            Self::Shunned => "SHUNNED",
            Self::OfflineSoft => "OFFLINE_SOFT",
            Self::OfflineHard => "OFFLINE_HARD",
        }
    }

    /// Reads a name; `SHUNNED_REPLICATION_LAG` is a way of being shunned.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "ONLINE" => Self::Online,
            "SHUNNED" | "SHUNNED_REPLICATION_LAG" => Self::Shunned,
            "OFFLINE_SOFT" => Self::OfflineSoft,
            "OFFLINE_HARD" => Self::OfflineHard,
            _ => return None,
        })
    }
}

/// All of a row of `mysql_servers` but its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Where the GTID feed of the server is dialled; 0 for none.
    pub gtid_port: u16,
    /// Whether it takes work.
    pub status: Status,
    /// Its share of the work, 0 to 10,000,000.
    pub weight: u32,
    /// `compression`.
    pub compression: u32,
    /// `max_connections`.
    pub max_connections: u32,
    /// Seconds of replication lag past which ProxySQL itself shuns it; 0 never.
    pub max_replication_lag: u32,
    /// `use_ssl`.
    pub use_ssl: u32,
    /// `max_latency_ms`.
    pub max_latency_ms: u32,
    /// Free text.
    pub comment: String,
}

impl Default for Row {
    /// ProxySQL's own defaults.
    fn default() -> Self {
        Self {
            gtid_port: 0,
            status: Status::Online,
            weight: 1,
            compression: 0,
            max_connections: 1000,
            max_replication_lag: 0,
            use_ssl: 0,
            max_latency_ms: 0,
            comment: String::new(),
        }
    }
}

/// `mysql_servers` or `runtime_mysql_servers`.
pub type Rows = BTreeMap<Key, Row>;

/// Which monitor of ProxySQL places servers in a group of hostgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Monitor {
    /// By `read_only` (`mysql_replication_hostgroups`).
    ReadOnly,
    /// By Group Replication's state (`mysql_group_replication_hostgroups`).
    Group,
}

/// Hostgroups between which a monitor of ProxySQL moves servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The monitor.
    pub monitor: Monitor,
    /// `writer_hostgroup`.
    pub writer: u32,
    /// `reader_hostgroup`.
    pub reader: u32,
    /// `backup_writer_hostgroup` and `offline_hostgroup`, where there are any.
    pub others: Vec<u32>,
}

impl Placement {
    /// True when the monitor places servers in `hostgroup`.
    pub fn holds(&self, hostgroup: u32) -> bool {
        self.writer == hostgroup || self.reader == hostgroup || self.others.contains(&hostgroup)
    }
}

/// What shows that queries are held back by GTID (`gtid_from_hostgroup`,
/// `min_gtid`): with them under way, a LOAD can stop some versions for good.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gating {
    /// Active rules with `gtid_from_hostgroup`.
    pub rules: Vec<u64>,
    /// Rows with a `gtid_port`.
    pub ports: usize,
    /// `Queries_GTID_sync` grew since it was last looked at.
    pub queries: bool,
}

impl Gating {
    /// True when any sign was seen.
    pub fn in_use(&self) -> bool {
        !self.rules.is_empty() || self.ports > 0 || self.queries
    }
}

impl fmt::Display for Gating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut signs = Vec::new();
        if !self.rules.is_empty() {
            signs.push(format!("rules {:?} have gtid_from_hostgroup", self.rules));
        }
        if self.ports > 0 {
            signs.push(format!("{} rows have a gtid_port", self.ports));
        }
        if self.queries {
            signs.push("Queries_GTID_sync grows".to_owned());
        }
        f.write_str(&signs.join(", "))
    }
}

/// What a look costs next to nothing to see: whether anything changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glance {
    /// Counts the LOADs since the start.
    pub loads: u64,
    /// Changes with the content, also by a monitor's hand.
    pub checksum: String,
}

/// What was read from one instance, all within one look.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// `@@version`.
    pub version: Version,
    /// Seconds since the instance started.
    pub uptime_s: u64,
    /// Counts the LOADs of `mysql_servers` since the start.
    pub loads: u64,
    /// `runtime_checksums_values` of `mysql_servers`.
    pub checksum: String,
    /// `mysql_servers`: what the next LOAD would bring.
    pub memory: Rows,
    /// `runtime_mysql_servers`: what is in force.
    pub runtime: Rows,
    /// Groups of hostgroups that monitors own.
    pub placements: Vec<Placement>,
    /// Signs of GTID-gated queries.
    pub gating: Gating,
    /// Members of the ProxySQL Cluster, as `host:port`.
    pub cluster: Vec<String>,
}

impl Snapshot {
    /// What a glance right before would have shown.
    pub fn glance(&self) -> Glance {
        Glance {
            loads: self.loads,
            checksum: self.checksum.clone(),
        }
    }

    /// True when a monitor of ProxySQL places servers in `hostgroup`.
    pub fn is_placed(&self, hostgroup: u32) -> bool {
        self.placements
            .iter()
            .any(|placement| placement.holds(hostgroup))
    }

    /// The row in force. A row that was removed, or that a monitor moved away,
    /// shows as OFFLINE_HARD until its connections are gone.
    pub fn in_runtime(&self, key: &Key) -> Option<&Row> {
        let row = self.runtime.get(key)?;
        let said = self.memory.get(key).map(|row| row.status);
        let removed = row.status == Status::OfflineHard && said != Some(Status::OfflineHard);
        (!removed).then_some(row)
    }
}
