//! The statements and column names that differ between MySQL versions.
//!
//! Sources: MySQL 8.0, 8.4 and 9.x reference manuals, "SHOW REPLICA STATUS"
//! (since 8.0.22), "SHOW BINARY LOG STATUS" (since 8.2.0),
//! "replica_preserve_commit_order" (since 8.0.26).

use crate::fleet::Version;

/// How to ask a server of some version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Statements {
    pub(crate) replica_status: &'static str,
    pub(crate) binary_log_status: &'static str,
    pub(crate) preserve_commit_order: &'static str,
    pub(crate) columns: &'static Columns,
}

/// Column names of the replica status.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    pub(crate) source_host: &'static str,
    pub(crate) source_port: &'static str,
    pub(crate) source_uuid: &'static str,
    pub(crate) receiver_running: &'static str,
    pub(crate) applier_running: &'static str,
}

const COLUMNS: Columns = Columns {
    source_host: "Source_Host",
    source_port: "Source_Port",
    source_uuid: "Source_UUID",
    receiver_running: "Replica_IO_Running",
    applier_running: "Replica_SQL_Running",
};

/// Before 8.0.22.
const COLUMNS_OLD: Columns = Columns {
    source_host: "Master_Host",
    source_port: "Master_Port",
    source_uuid: "Master_UUID",
    receiver_running: "Slave_IO_Running",
    applier_running: "Slave_SQL_Running",
};

impl Statements {
    /// The statements for `version`.
    pub(crate) fn of(version: Version) -> Self {
        let since = |major, minor, patch| version >= Version::new(major, minor, patch);
        let new_names = since(8, 0, 22);
        Self {
            replica_status: if new_names {
                "SHOW REPLICA STATUS"
            } else {
                "SHOW SLAVE STATUS"
            },
            binary_log_status: if since(8, 2, 0) {
                "SHOW BINARY LOG STATUS"
            } else {
                "SHOW MASTER STATUS"
            },
            preserve_commit_order: if since(8, 0, 26) {
                "@@GLOBAL.replica_preserve_commit_order"
            } else {
                "@@GLOBAL.slave_preserve_commit_order"
            },
            columns: if new_names { &COLUMNS } else { &COLUMNS_OLD },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_is_asked_in_its_own_words() {
        let old = Statements::of(Version::new(8, 0, 21));
        assert_eq!(
            (old.replica_status, old.columns.source_uuid),
            ("SHOW SLAVE STATUS", "Master_UUID")
        );
        assert_eq!(
            old.preserve_commit_order,
            "@@GLOBAL.slave_preserve_commit_order"
        );
        let lts = Statements::of(Version::new(8, 0, 41));
        assert_eq!(
            (lts.replica_status, lts.binary_log_status),
            ("SHOW REPLICA STATUS", "SHOW MASTER STATUS")
        );
        for new in [Version::new(8, 4, 0), Version::new(9, 7, 4)] {
            assert_eq!(
                Statements::of(new).binary_log_status,
                "SHOW BINARY LOG STATUS"
            );
            assert_eq!(Statements::of(new).columns, &COLUMNS);
        }
    }
}
