//! The servers at runtime: their states, and which of them a query may go to.
//!
//! Pure: what happens is told by methods, and nothing here connects anywhere.

use std::collections::BTreeMap;

/// One row: hostgroup, host name, port.
pub(super) type Key = (u32, String, u16);

/// A server's state in one hostgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Online,
    Shunned,
    OfflineSoft,
    OfflineHard,
    ReplicationLag,
}

impl Status {
    pub(super) fn parse(text: &str) -> Self {
        match text.to_uppercase().as_str() {
            "SHUNNED" => Self::Shunned,
            "OFFLINE_SOFT" => Self::OfflineSoft,
            "OFFLINE_HARD" => Self::OfflineHard,
            _ => Self::Online,
        }
    }

    /// As `runtime_mysql_servers` shows it, where lag is not told apart.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ReplicationLag => "SHUNNED",
            _ => self.name_in_pool(),
        }
    }

    /// As `stats_mysql_connection_pool` shows it.
    pub(super) fn name_in_pool(self) -> &'static str {
        match self {
            Self::Online => "ONLINE",
            Self::Shunned => "SHUNNED",
            Self::OfflineSoft => "OFFLINE_SOFT",
            Self::OfflineHard => "OFFLINE_HARD",
            Self::ReplicationLag => "SHUNNED_REPLICATION_LAG",
        }
    }

    fn is_offline(self) -> bool {
        matches!(self, Self::OfflineSoft | Self::OfflineHard)
    }
}

/// A server in one hostgroup.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) status: Status,
    pub(super) gtid_port: u16,
    pub(super) weight: u32,
    pub(super) max_replication_lag: u32,
    /// Columns that are only kept: compression, max_connections, use_ssl, max_latency_ms.
    pub(super) kept: [i64; 4],
    pub(super) comment: String,
    pub(super) counts: Counts,
}

/// What `stats_mysql_connection_pool` counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) used: i64,
    pub(super) used_max: i64,
    pub(super) free: i64,
    pub(super) connected: i64,
    pub(super) failed: i64,
    pub(super) queries: i64,
    pub(super) gated: i64,
}

/// A pair of hostgroups that the read_only monitor looks after.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) writer: u32,
    pub(super) reader: u32,
    pub(super) check: String,
}

/// Every server at runtime.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts(pub(super) BTreeMap<Key, Host>);

impl Hosts {
    /// What `LOAD MYSQL SERVERS TO RUNTIME` does: rows take the table's values,
    /// and rows that the table lacks go.
    pub(super) fn load(&mut self, rows: Vec<(Key, Host)>) {
        for (key, host) in &mut self.0 {
            if !rows.iter().any(|(row, _)| row == key) {
                host.status = Status::OfflineHard;
            }
        }
        for (key, row) in rows {
            let counts = self.0.get(&key).map(|host| host.counts);
            let counts = counts.unwrap_or_default();
            self.0.insert(key, Host { counts, ..row });
        }
        self.purge();
    }

    /// Rows that are gone for good stay while a connection is in use.
    pub(super) fn purge(&mut self) {
        self.0
            .retain(|_, host| host.status != Status::OfflineHard || host.counts.used > 0);
    }

    /// The servers of a hostgroup that new work may go to, with their weights.
    pub(super) fn candidates(&self, hostgroup: u32) -> impl Iterator<Item = (&Key, &Host)> {
        self.0.iter().filter(move |((group, ..), host)| {
            *group == hostgroup && host.status == Status::Online && host.weight > 0
        })
    }

    /// The hosts that the monitor asks for their read_only.
    pub(super) fn monitored(&self, pair: &Pair) -> Vec<(String, u16)> {
        let mut hosts: Vec<_> = self
            .0
            .iter()
            .filter(|((group, ..), host)| {
                (*group == pair.writer || *group == pair.reader) && !host.status.is_offline()
            })
            .map(|((_, name, port), _)| (name.clone(), *port))
            .collect();
        hosts.sort();
        hosts.dedup();
        hosts
    }

    /// Puts a host where its read_only says it belongs. True when something moved.
    pub(super) fn place(
        &mut self,
        pair: &Pair,
        host: &(String, u16),
        read_only: bool,
        writer_reads: bool,
    ) -> bool {
        let (name, port) = host;
        let key = |group: u32| (group, name.clone(), *port);
        let (writer, reader) = (key(pair.writer), key(pair.reader));
        match (read_only, self.has(&writer), self.has(&reader)) {
            (false, false, true) => {
                self.copy(&reader, writer);
                if !writer_reads {
                    self.remove(&reader);
                }
            }
            (true, true, has_reader) => {
                if !has_reader {
                    self.copy(&writer, reader);
                }
                self.remove(&writer);
            }
            _ => return false,
        }
        self.purge();
        true
    }

    /// What the lag monitor does with one row. `None`: the server is no replica.
    pub(super) fn judge_lag(&mut self, key: &Key, lag: Option<u32>) {
        let Some((host, lag)) = self.0.get_mut(key).zip(lag) else {
            return;
        };
        let late = host.max_replication_lag > 0 && lag > host.max_replication_lag;
        match host.status {
            Status::Online if late => host.status = Status::ReplicationLag,
            Status::ReplicationLag if !late => host.status = Status::Online,
            _ => {}
        }
    }

    fn has(&self, key: &Key) -> bool {
        self.0
            .get(key)
            .is_some_and(|host| host.status != Status::OfflineHard)
    }

    // A host that answered the monitor counts as well, so a shunned one is freed.
    fn copy(&mut self, from: &Key, to: Key) {
        let Some(host) = self.0.get_mut(from) else {
            return;
        };
        if matches!(host.status, Status::Shunned | Status::ReplicationLag) {
            host.status = Status::Online;
        }
        let copy = Host {
            counts: Counts::default(),
            ..host.clone()
        };
        self.0.insert(to, copy);
    }

    fn remove(&mut self, key: &Key) {
        if let Some(host) = self.0.get_mut(key) {
            host.status = Status::OfflineHard;
        }
    }
}
