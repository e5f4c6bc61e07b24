//! The admin's tables, with the columns, keys and checks of ProxySQL 2.7.1.

use rusqlite::Connection;

/// The tables of configuration: each exists in memory, as `runtime_…`, and on disk.
pub(super) const CONFIGURATION: [(&str, &str); 7] = [
    ("mysql_servers", SERVERS),
    ("mysql_replication_hostgroups", REPLICATION_HOSTGROUPS),
    ("mysql_group_replication_hostgroups", GROUP_REPLICATION),
    ("mysql_query_rules", QUERY_RULES),
    ("mysql_users", USERS),
    (
        "global_variables",
        "variable_name VARCHAR NOT NULL PRIMARY KEY, variable_value VARCHAR NOT NULL",
    ),
    (
        "proxysql_servers",
        "hostname VARCHAR NOT NULL, port INT NOT NULL DEFAULT 6032,
         weight INT CHECK (weight >= 0) NOT NULL DEFAULT 0,
         comment VARCHAR NOT NULL DEFAULT '', PRIMARY KEY (hostname, port)",
    ),
];

const SERVERS: &str = "\
    hostgroup_id INT CHECK (hostgroup_id >= 0) NOT NULL DEFAULT 0,
    hostname VARCHAR NOT NULL,
    port INT CHECK (port BETWEEN 0 AND 65535) NOT NULL DEFAULT 3306,
    gtid_port INT CHECK ((gtid_port <> port OR gtid_port = 0) AND gtid_port BETWEEN 0 AND 65535)
        NOT NULL DEFAULT 0,
    status VARCHAR CHECK (UPPER(status) IN ('ONLINE', 'SHUNNED', 'OFFLINE_SOFT', 'OFFLINE_HARD'))
        NOT NULL DEFAULT 'ONLINE',
    weight INT CHECK (weight BETWEEN 0 AND 10000000) NOT NULL DEFAULT 1,
    compression INT CHECK (compression IN (0, 1)) NOT NULL DEFAULT 0,
    max_connections INT CHECK (max_connections >= 0) NOT NULL DEFAULT 1000,
    max_replication_lag INT CHECK (max_replication_lag BETWEEN 0 AND 126144000)
        NOT NULL DEFAULT 0,
    use_ssl INT CHECK (use_ssl IN (0, 1)) NOT NULL DEFAULT 0,
    max_latency_ms INT UNSIGNED CHECK (max_latency_ms >= 0) NOT NULL DEFAULT 0,
    comment VARCHAR NOT NULL DEFAULT '',
    PRIMARY KEY (hostgroup_id, hostname, port)";

const REPLICATION_HOSTGROUPS: &str = "\
    writer_hostgroup INT CHECK (writer_hostgroup >= 0) NOT NULL PRIMARY KEY,
    reader_hostgroup INT NOT NULL
        CHECK (reader_hostgroup <> writer_hostgroup AND reader_hostgroup >= 0),
    check_type VARCHAR CHECK (LOWER(check_type) IN ('read_only', 'innodb_read_only',
        'super_read_only', 'read_only|innodb_read_only', 'read_only&innodb_read_only'))
        NOT NULL DEFAULT 'read_only',
    comment VARCHAR NOT NULL DEFAULT '',
    UNIQUE (reader_hostgroup)";

const GROUP_REPLICATION: &str = "\
    writer_hostgroup INT CHECK (writer_hostgroup >= 0) NOT NULL PRIMARY KEY,
    backup_writer_hostgroup INT NOT NULL
        CHECK (backup_writer_hostgroup >= 0 AND backup_writer_hostgroup <> writer_hostgroup),
    reader_hostgroup INT NOT NULL CHECK (reader_hostgroup <> writer_hostgroup
        AND backup_writer_hostgroup <> reader_hostgroup AND reader_hostgroup > 0),
    offline_hostgroup INT NOT NULL CHECK (offline_hostgroup <> writer_hostgroup
        AND offline_hostgroup <> reader_hostgroup
        AND backup_writer_hostgroup <> offline_hostgroup AND offline_hostgroup >= 0),
    active INT CHECK (active IN (0, 1)) NOT NULL DEFAULT 1,
    max_writers INT NOT NULL CHECK (max_writers >= 0) DEFAULT 1,
    writer_is_also_reader INT CHECK (writer_is_also_reader IN (0, 1, 2)) NOT NULL DEFAULT 0,
    max_transactions_behind INT CHECK (max_transactions_behind >= 0) NOT NULL DEFAULT 0,
    comment VARCHAR,
    UNIQUE (reader_hostgroup), UNIQUE (offline_hostgroup), UNIQUE (backup_writer_hostgroup)";

const QUERY_RULES: &str = "\
    rule_id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    active INT CHECK (active IN (0, 1)) NOT NULL DEFAULT 0,
    username VARCHAR, schemaname VARCHAR,
    flagIN INT CHECK (flagIN >= 0) NOT NULL DEFAULT 0,
    client_addr VARCHAR, proxy_addr VARCHAR,
    proxy_port INT CHECK (proxy_port BETWEEN 0 AND 65535),
    digest VARCHAR, match_digest VARCHAR, match_pattern VARCHAR,
    negate_match_pattern INT CHECK (negate_match_pattern IN (0, 1)) NOT NULL DEFAULT 0,
    re_modifiers VARCHAR DEFAULT 'CASELESS',
    flagOUT INT CHECK (flagOUT >= 0),
    replace_pattern VARCHAR CHECK (replace_pattern IS NULL OR match_pattern IS NOT NULL),
    destination_hostgroup INT DEFAULT NULL,
    cache_ttl INT CHECK (cache_ttl > 0),
    cache_empty_result INT CHECK (cache_empty_result IN (0, 1)) DEFAULT NULL,
    cache_timeout INT CHECK (cache_timeout >= 0),
    reconnect INT CHECK (reconnect IN (0, 1)) DEFAULT NULL,
    timeout INT UNSIGNED CHECK (timeout >= 0),
    retries INT CHECK (retries BETWEEN 0 AND 1000),
    delay INT UNSIGNED CHECK (delay >= 0),
    next_query_flagIN INT UNSIGNED, mirror_flagOUT INT UNSIGNED, mirror_hostgroup INT UNSIGNED,
    error_msg VARCHAR, OK_msg VARCHAR,
    sticky_conn INT CHECK (sticky_conn IN (0, 1)),
    multiplex INT CHECK (multiplex IN (0, 1, 2)),
    gtid_from_hostgroup INT UNSIGNED,
    log INT CHECK (log IN (0, 1)),
    apply INT CHECK (apply IN (0, 1)) NOT NULL DEFAULT 0,
    attributes VARCHAR CHECK (JSON_VALID(attributes) OR attributes = '') NOT NULL DEFAULT '',
    comment VARCHAR";

const USERS: &str = "\
    username VARCHAR NOT NULL, password VARCHAR,
    active INT CHECK (active IN (0, 1)) NOT NULL DEFAULT 1,
    use_ssl INT CHECK (use_ssl IN (0, 1)) NOT NULL DEFAULT 0,
    default_hostgroup INT NOT NULL DEFAULT 0,
    default_schema VARCHAR,
    schema_locked INT CHECK (schema_locked IN (0, 1)) NOT NULL DEFAULT 0,
    transaction_persistent INT CHECK (transaction_persistent IN (0, 1)) NOT NULL DEFAULT 1,
    fast_forward INT CHECK (fast_forward IN (0, 1)) NOT NULL DEFAULT 0,
    backend INT CHECK (backend IN (0, 1)) NOT NULL DEFAULT 1,
    frontend INT CHECK (frontend IN (0, 1)) NOT NULL DEFAULT 1,
    max_connections INT CHECK (max_connections >= 0) NOT NULL DEFAULT 10000,
    attributes VARCHAR CHECK (JSON_VALID(attributes) OR attributes = '') NOT NULL DEFAULT '',
    comment VARCHAR NOT NULL DEFAULT '',
    PRIMARY KEY (username, backend), UNIQUE (username, frontend)";

const ONLY_IN_MEMORY: &str = "\
CREATE TABLE runtime_checksums_values (name VARCHAR NOT NULL, version INT NOT NULL,
    epoch INT NOT NULL, checksum VARCHAR NOT NULL, PRIMARY KEY (name));
CREATE TABLE stats_mysql_global (Variable_Name VARCHAR NOT NULL PRIMARY KEY,
    Variable_Value VARCHAR NOT NULL);
CREATE TABLE stats_mysql_connection_pool (hostgroup INT, srv_host VARCHAR, srv_port INT,
    status VARCHAR, ConnUsed INT, ConnFree INT, ConnOK INT, ConnERR INT, MaxConnUsed INT,
    Queries INT, Queries_GTID_sync INT, Bytes_data_sent INT, Bytes_data_recv INT,
    Latency_us INT);
CREATE TABLE stats_mysql_gtid_executed (hostname VARCHAR NOT NULL,
    port INT NOT NULL DEFAULT 3306, gtid_executed VARCHAR, events INT NOT NULL);";

/// The variables that have an effect here, or that a controller reads.
pub(super) const VARIABLES: [(&str, &str); 19] = [
    ("admin-admin_credentials", "admin:admin"),
    ("admin-hash_passwords", "true"),
    ("admin-refresh_interval", "2000"),
    ("mysql-binlog_reader_connect_retry_msec", "3000"),
    ("mysql-connect_retries_delay", "1"),
    ("mysql-connect_timeout_server", "1000"),
    ("mysql-connect_timeout_server_max", "10000"),
    ("mysql-default_session_track_gtids", "OFF"),
    ("mysql-monitor_enabled", "true"),
    ("mysql-monitor_password", "monitor"),
    ("mysql-monitor_read_only_interval", "1500"),
    ("mysql-monitor_replication_lag_interval", "10000"),
    ("mysql-monitor_slave_lag_when_null", "60"),
    ("mysql-monitor_username", "monitor"),
    ("mysql-monitor_writer_is_also_reader", "true"),
    ("mysql-poll_timeout_on_failure", "100"),
    ("mysql-query_digests", "true"),
    ("mysql-server_version", "8.0.11"),
    ("mysql-threads", "4"),
];

/// Makes every table that is not there yet; what is on disk stays.
pub(super) fn create(db: &Connection) -> rusqlite::Result<()> {
    for (name, columns) in CONFIGURATION {
        db.execute_batch(&format!(
            "CREATE TABLE main.{name} ({columns});
             CREATE TABLE main.runtime_{name} ({columns});
             CREATE TABLE IF NOT EXISTS disk.{name} ({columns});"
        ))?;
    }
    db.execute_batch(ONLY_IN_MEMORY)?;
    for (name, value) in VARIABLES {
        let sql = "INSERT OR IGNORE INTO disk.global_variables VALUES (?1, ?2)";
        db.execute(sql, (name, value))?;
    }
    Ok(())
}
