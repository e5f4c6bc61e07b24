//! Statements for ProxySQL's admin interface. It takes one statement per query,
//! and its tables are SQLite's: text is quoted with `'`, doubled inside.

use super::rows::{Key, Row};

/// Brings `mysql_servers` into force.
pub(super) const LOAD: &str = "LOAD MYSQL SERVERS TO RUNTIME";

/// The columns beside the key, in order, as SQL values.
pub(super) fn columns(row: &Row) -> [(&'static str, String); 9] {
    [
        ("gtid_port", row.gtid_port.to_string()),
        ("status", quoted(row.status.name())),
        ("weight", row.weight.to_string()),
        ("compression", row.compression.to_string()),
        ("max_connections", row.max_connections.to_string()),
        ("max_replication_lag", row.max_replication_lag.to_string()),
        ("use_ssl", row.use_ssl.to_string()),
        ("max_latency_ms", row.max_latency_ms.to_string()),
        ("comment", quoted(&row.comment)),
    ]
}

pub(super) fn insert(key: &Key, row: &Row) -> String {
    let (names, values): (Vec<&str>, Vec<String>) = columns(row).into_iter().unzip();
    format!(
        "REPLACE INTO mysql_servers (hostgroup_id, hostname, port, {}) VALUES ({}, {}, {}, {})",
        names.join(", "),
        key.hostgroup,
        quoted(&key.address.host),
        key.address.port,
        values.join(", "),
    )
}

pub(super) fn update(key: &Key, row: &Row) -> String {
    let set = columns(row).map(|(name, value)| format!("{name}={value}"));
    format!(
        "UPDATE mysql_servers SET {} WHERE {}",
        set.join(", "),
        only(key)
    )
}

pub(super) fn delete(key: &Key) -> String {
    format!("DELETE FROM mysql_servers WHERE {}", only(key))
}

/// Keeps the rows of the given hostgroups over a restart, and no others.
pub(super) fn save(hostgroups: impl IntoIterator<Item = u32>) -> String {
    let list: Vec<String> = hostgroups.into_iter().map(|h| h.to_string()).collect();
    format!(
        "REPLACE INTO disk.mysql_servers SELECT * FROM main.mysql_servers WHERE hostgroup_id IN ({})",
        list.join(", ")
    )
}

fn only(key: &Key) -> String {
    format!(
        "hostgroup_id={} AND hostname={} AND port={}",
        key.hostgroup,
        quoted(&key.address.host),
        key.address.port
    )
}

pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxysql::rows::Status;
    use crate::proxysql::testing::{execute, key};

    fn row() -> Row {
        Row {
            gtid_port: 6020,
            status: Status::OfflineSoft,
            weight: 2,
            compression: 3,
            max_connections: 4,
            max_replication_lag: 5,
            use_ssl: 1,
            max_latency_ms: 6,
            comment: "it's\\".to_owned(),
        }
    }

    #[test]
    fn every_column_is_written() {
        assert_eq!(
            insert(&key(21, "db2"), &row()),
            "REPLACE INTO mysql_servers (hostgroup_id, hostname, port, gtid_port, status, weight, \
             compression, max_connections, max_replication_lag, use_ssl, max_latency_ms, comment) \
             VALUES (21, 'db2', 3306, 6020, 'OFFLINE_SOFT', 2, 3, 4, 5, 1, 6, 'it''s\\')"
        );
        assert_eq!(
            update(&key(21, "db2"), &row()),
            "UPDATE mysql_servers SET gtid_port=6020, status='OFFLINE_SOFT', weight=2, \
             compression=3, max_connections=4, max_replication_lag=5, use_ssl=1, \
             max_latency_ms=6, comment='it''s\\' \
             WHERE hostgroup_id=21 AND hostname='db2' AND port=3306"
        );
    }

    #[test]
    fn a_row_is_removed_by_its_whole_key() {
        assert_eq!(
            delete(&key(21, "d'b")),
            "DELETE FROM mysql_servers WHERE hostgroup_id=21 AND hostname='d''b' AND port=3306"
        );
    }

    #[test]
    fn only_the_given_hostgroups_are_saved() {
        assert_eq!(
            save([21, 9001]),
            "REPLACE INTO disk.mysql_servers SELECT * FROM main.mysql_servers \
             WHERE hostgroup_id IN (21, 9001)"
        );
        assert!(save([]).ends_with("IN ()"), "none, and valid in SQLite");
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let mut memory = std::collections::BTreeMap::new();
        execute(&mut memory, &insert(&key(21, "a'b"), &Row::default()));
        execute(&mut memory, &update(&key(21, "a'b"), &row()));
        assert_eq!(memory[&key(21, "a'b")], row());
        execute(&mut memory, &delete(&key(21, "a'b")));
        assert!(memory.is_empty());
    }
}
