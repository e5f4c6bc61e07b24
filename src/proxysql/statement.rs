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
