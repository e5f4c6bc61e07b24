//! What the slow status poll learns of a server, decoded and typed.
//!
//! A value that the server did not give stays `None`: unknown is never zero.

use std::fmt;

use crate::gtid::{GtidSet, Uuid};

/// A server's version, as `SELECT VERSION()` gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 9 in 9.7.4.
    pub major: u16,
    /// 7 in 9.7.4.
    pub minor: u16,
    /// 4 in 9.7.4.
    pub patch: u16,
}

impl Version {
    /// A version from its three numbers.
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self {
            major,
            minor,
            patch,
        }
    }

    /// Reads the leading `a.b.c` of a version text such as `8.0.41-debug`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        let mut next = || parts.next()?.ok();
        Some(Self {
            major: next()?,
            minor: next()?,
            patch: next()?,
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// What a server says of itself right after connecting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// `@@server_uuid`.
    pub uuid: Uuid,
    /// The server's version.
    pub version: Version,
}

/// One replication channel of a replica (`SHOW REPLICA STATUS`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Channel name; empty for the default channel.
    pub name: String,
    /// The source's address, `host:port`, as configured on the replica.
    pub source_address: String,
    /// The source's UUID; `None` until the replica has once connected to it.
    pub source_uuid: Option<Uuid>,
    /// The receiver is running and connected.
    pub receiver_running: bool,
    /// The receiver thread runs but has no connection.
    pub receiver_connecting: bool,
    /// The applier (coordinator) is running.
    pub applier_running: bool,
    /// GTIDs received in the relay log; says nothing about visibility.
    pub received: Option<GtidSet>,
    /// The newest error of the receiver or the applier.
    pub error: Option<String>,
    /// Configured delay (`SOURCE_DELAY`) in seconds.
    pub delay_s: Option<u64>,
}

impl Channel {
    /// True when the channel fetches or applies, or tries to.
    pub fn active(&self) -> bool {
        self.receiver_running || self.receiver_connecting || self.applier_running
    }
}

/// One answer of the status poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// `@@GLOBAL.read_only` or `super_read_only`.
    pub read_only: bool,
    /// `@@GLOBAL.replica_preserve_commit_order`; `None` where it is not known.
    pub preserve_commit_order: Option<bool>,
    /// `Threads_running`, the server's load; `None` when it cannot be read.
    pub threads_running: Option<u32>,
    /// The replication channels, Group Replication's own left out.
    pub channels: Vec<Channel>,
    /// The newest binary log file and position; `None` without a binary log.
    pub binary_log: Option<(String, u64)>,
}

/// Why a server cannot be used. Each has one cause and one remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Never reached since the start.
    #[error("not connected yet")]
    NotConnectedYet,
    /// No TCP connection, or it broke.
    #[error("cannot reach the server: {0}")]
    Unreachable(String),
    /// An answer did not come before its deadline.
    #[error("no answer within {0} ms")]
    Timeout(u64),
    /// Wrong user or password.
    #[error("access denied: {0}")]
    AccessDenied(String),
    /// The user lacks a privilege.
    #[error(
        "missing privilege: {0}; GRANT REPLICATION CLIENT ON *.* and GRANT SELECT ON performance_schema.* to the user"
    )]
    MissingPrivilege(String),
    /// A server that speaks the protocol but is not MySQL.
    #[error("not a MySQL server: {0} has other GTIDs, which Causeway cannot compare")]
    NotMySql(String),
    /// `gtid_mode` is not `ON`.
    #[error("gtid_mode is {0}; it must be ON, with enforce_gtid_consistency=ON")]
    GtidModeOff(String),
    /// Older than MySQL 8.0.
    #[error("version {0} is too old; MySQL 8.0 or later is needed")]
    TooOld(Version),
    /// The server answered with something that cannot be read.
    #[error("unreadable answer: {0}")]
    Unreadable(String),
    /// Any other error of the server.
    #[error("server error: {0}")]
    Server(String),
}

impl Fault {
    /// A stable short name, for metrics and JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NotConnectedYet => "not_connected_yet",
            Self::Unreachable(_) => "unreachable",
            Self::Timeout(_) => "timeout",
            Self::AccessDenied(_) => "access_denied",
            Self::MissingPrivilege(_) => "missing_privilege",
            Self::NotMySql(_) => "not_mysql",
            Self::GtidModeOff(_) => "gtid_mode_off",
            Self::TooOld(_) => "too_old",
            Self::Unreadable(_) => "unreadable",
            Self::Server(_) => "server_error",
        }
    }

    /// True when only a person can mend it, so that retrying soon is pointless.
    pub fn needs_a_person(&self) -> bool {
        !matches!(
            self,
            Self::NotConnectedYet
                | Self::Unreachable(_)
                | Self::Timeout(_)
                | Self::Unreadable(_)
                | Self::Server(_)
        )
    }
}
