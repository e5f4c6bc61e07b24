//! The admin's tables in SQLite, as in ProxySQL itself: `main` in memory, and
//! the attached `disk`, a file that outlives a restart.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::Path,
};

use rusqlite::{
    Batch, Connection, Params, Row, fallible_iterator::FallibleIterator as _, types::ValueRef,
};

use super::{
    command::{Layer, Module},
    hosts::{Counts, Host, Hosts, Key, Pair, Status},
    schema,
    wire::SqlError,
};

/// What a statement gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The number of rows that it changed.
    Done(u64),
    Rows {
        columns: Vec<String>,
        rows: Vec<Vec<Option<String>>>,
    },
}

/// The database.
#[derive(Debug)]
pub(super) struct Store(Connection);

impl From<rusqlite::Error> for SqlError {
    fn from(error: rusqlite::Error) -> Self {
        Self::new(1045, "28000", format!("ProxySQL Admin Error: {error}"))
    }
}

impl Store {
    /// Empty in memory, and with what the file holds.
    pub(super) fn open(file: &Path) -> rusqlite::Result<Self> {
        let db = Connection::open_in_memory()?;
        db.execute("ATTACH DATABASE ?1 AS disk", [file.display().to_string()])?;
        // A crash of the machine is no concern of a test.
        db.execute_batch("PRAGMA disk.synchronous = OFF")?;
        schema::create(&db)?;
        Ok(Self(db))
    }

    /// Runs the first statement of `sql`. What comes after it is not even parsed.
    pub(super) fn run(&self, sql: &str) -> rusqlite::Result<Answer> {
        let Some(mut statement) = Batch::new(&self.0, sql).next()? else {
            return Ok(Answer::Done(0));
        };
        let columns: Vec<String> = statement
            .column_names()
            .into_iter()
            .map(str::to_owned)
            .collect();
        if columns.is_empty() {
            let changed = statement.raw_execute()?;
            return Ok(Answer::Done(changed as u64));
        }
        let row = |row: &Row<'_>| (0..columns.len()).map(|index| text(row, index)).collect();
        let rows = statement.query_and_then([], row)?;
        let rows = rows.collect::<rusqlite::Result<_>>()?;
        Ok(Answer::Rows { columns, rows })
    }

    /// Changes rows.
    pub(super) fn change(&self, sql: &str, values: impl Params) -> rusqlite::Result<()> {
        self.0.execute(sql, values).map(drop)
    }

    /// All rows of a query.
    pub(super) fn rows<T>(
        &self,
        sql: &str,
        row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        self.0.prepare(sql)?.query_map([], row)?.collect()
    }

    /// Replaces a module's rows of one layer by another's.
    pub(super) fn copy(&self, module: Module, from: Layer, to: Layer) -> rusqlite::Result<()> {
        let condition = module.condition();
        for table in module.tables() {
            let (from, to) = (place(from, table), place(to, table));
            self.0.execute_batch(&format!(
                "DELETE FROM {to} WHERE {condition};
                 INSERT INTO {to} SELECT * FROM {from} WHERE {condition}"
            ))?;
        }
        Ok(())
    }

    /// A number that changes with the content of these tables.
    pub(super) fn checksum(&self, tables: &[String], condition: &str) -> rusqlite::Result<String> {
        let mut hasher = DefaultHasher::new();
        for table in tables {
            let answer = self.run(&format!("SELECT * FROM {table} WHERE {condition}"))?;
            if let Answer::Rows { rows, .. } = answer {
                rows.hash(&mut hasher);
            }
        }
        Ok(format!("0x{:016X}", hasher.finish()))
    }

    /// Seconds since 1970.
    pub(super) fn epoch(&self) -> rusqlite::Result<i64> {
        let sql = "SELECT CAST(strftime('%s') AS INTEGER)";
        self.0.query_row(sql, [], |row| row.get(0))
    }

    /// The rows of `mysql_servers`.
    pub(super) fn servers(&self) -> rusqlite::Result<Vec<(Key, Host)>> {
        let sql = "SELECT hostgroup_id, hostname, port, gtid_port, status, weight, compression,
                   max_connections, max_replication_lag, use_ssl, max_latency_ms, comment
                   FROM mysql_servers";
        self.rows(sql, |row| {
            let host = Host {
                status: Status::parse(&row.get::<_, String>(4)?),
                gtid_port: row.get(3)?,
                weight: row.get(5)?,
                max_replication_lag: row.get(8)?,
                kept: [row.get(6)?, row.get(7)?, row.get(9)?, row.get(10)?],
                comment: row.get(11)?,
                counts: Counts::default(),
            };
            Ok(((row.get(0)?, row.get(1)?, row.get(2)?), host))
        })
    }

    /// The pairs that the monitor looks after.
    pub(super) fn pairs(&self) -> rusqlite::Result<Vec<Pair>> {
        let sql = "SELECT writer_hostgroup, reader_hostgroup, check_type
                   FROM runtime_mysql_replication_hostgroups";
        self.rows(sql, |row| {
            Ok(Pair {
                writer: row.get(0)?,
                reader: row.get(1)?,
                check: row.get(2)?,
            })
        })
    }

    /// Writes the servers at runtime into a table of the same columns.
    pub(super) fn show_servers(&self, table: &str, hosts: &Hosts) -> rusqlite::Result<()> {
        self.change(&format!("DELETE FROM {table}"), ())?;
        let sql = format!("INSERT INTO {table} VALUES (?,?,?,?,?,?,?,?,?,?,?,?)");
        for ((group, name, port), host) in &hosts.0 {
            // Only what is shown as runtime may be shunned.
            let status = match host.status.name() {
                "SHUNNED" if table == "mysql_servers" => "ONLINE",
                status => status,
            };
            let [compression, connections, tls, latency] = host.kept;
            self.change(
                &sql,
                rusqlite::params![
                    group,
                    name,
                    port,
                    host.gtid_port,
                    status,
                    host.weight,
                    compression,
                    connections,
                    host.max_replication_lag,
                    tls,
                    latency,
                    host.comment
                ],
            )?;
        }
        Ok(())
    }

    /// Writes `stats_mysql_connection_pool`.
    pub(super) fn show_pool(&self, hosts: &Hosts) -> rusqlite::Result<()> {
        self.change("DELETE FROM stats_mysql_connection_pool", ())?;
        let sql = "INSERT INTO stats_mysql_connection_pool VALUES (?,?,?,?,?,?,?,?,?,?,?,0,0,0)";
        for ((group, name, port), host) in &hosts.0 {
            let counts = host.counts;
            self.change(
                sql,
                rusqlite::params![
                    group,
                    name,
                    port,
                    host.status.name_in_pool(),
                    counts.used,
                    counts.free,
                    counts.connected,
                    counts.failed,
                    counts.used_max,
                    counts.queries,
                    counts.gated
                ],
            )?;
        }
        Ok(())
    }
}

/// A table's full name.
pub(super) fn place(layer: Layer, table: &str) -> String {
    match layer {
        Layer::Memory => format!("main.{table}"),
        Layer::Runtime => format!("main.runtime_{table}"),
        Layer::Disk => format!("disk.{table}"),
    }
}

fn text(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(index)? {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            Some(String::from_utf8_lossy(bytes).into_owned())
        }
    })
}
