//! Reading an instance's tables: one [`Snapshot`] per look.

use super::admin::{Admin, AdminError, TextRow};
use super::rows::{Address, Gating, Glance, Key, Monitor, Placement, Row, Rows, Snapshot, Status};
use super::version::{OLDEST, Version};

const COLUMNS: &str = "hostgroup_id, hostname, port, gtid_port, status, weight, compression, \
                       max_connections, max_replication_lag, use_ssl, max_latency_ms, comment";

/// `runtime_checksums_values` (0.2 ms when measured).
pub(crate) async fn glance(admin: &mut Admin) -> Result<Glance, AdminError> {
    let query = "SELECT version, checksum FROM runtime_checksums_values WHERE name='mysql_servers'";
    let rows = admin.rows(query).await?;
    let row = rows
        .first()
        .ok_or_else(|| AdminError::NotProxySql("no checksum of mysql_servers".to_owned()))?;
    Ok(Glance {
        loads: row.number(0)?,
        checksum: row.text(1)?.to_owned(),
    })
}

/// Everything but the count of gated queries ([`count_gated`]).
pub(crate) async fn snapshot(admin: &mut Admin) -> Result<Snapshot, AdminError> {
    let version = version(admin).await?;
    let uptime_s = uptime(admin).await?;
    let Glance { loads, checksum } = glance(admin).await?;
    let memory = servers(admin, "mysql_servers").await?;
    let runtime = servers(admin, "runtime_mysql_servers").await?;
    let gating = Gating {
        rules: gating_rules(admin).await?,
        ports: runtime.values().filter(|row| row.gtid_port > 0).count(),
        queries: false,
    };
    Ok(Snapshot {
        version,
        uptime_s,
        loads,
        checksum,
        memory,
        runtime,
        placements: placements(admin).await?,
        gating,
        cluster: cluster(admin).await?,
    })
}

pub(crate) async fn version(admin: &mut Admin) -> Result<Version, AdminError> {
    let rows = admin
        .rows("SELECT @@version")
        .await
        .map_err(|error| match error {
            AdminError::Refused { message, .. } => AdminError::NotProxySql(message),
            other => other,
        })?;
    let text = rows.first().map_or(Ok(""), |row| row.text(0))?;
    let version =
        Version::parse(text).ok_or_else(|| AdminError::NotProxySql(format!("version {text:?}")))?;
    if version < OLDEST {
        return Err(AdminError::TooOld(version));
    }
    Ok(version)
}

/// Queries that were held back by GTID since the start. Reading it takes
/// ProxySQL's global lock and drops idle connections of servers that are out.
pub(crate) async fn count_gated(admin: &mut Admin) -> Result<u64, AdminError> {
    let query = "SELECT SUM(Queries_GTID_sync) FROM stats_mysql_connection_pool";
    let rows = admin.rows(query).await?;
    match rows.first() {
        // The sum over no connection at all is NULL.
        Some(row) if row.0 == [None] => Ok(0),
        Some(row) => row.number(0),
        None => Err(AdminError::NotProxySql("no sum of gated queries".into())),
    }
}

async fn uptime(admin: &mut Admin) -> Result<u64, AdminError> {
    let query =
        "SELECT Variable_Value FROM stats_mysql_global WHERE Variable_Name='ProxySQL_Uptime'";
    let rows = admin.rows(query).await?;
    rows.first()
        .ok_or_else(|| AdminError::NotProxySql("no ProxySQL_Uptime".to_owned()))?
        .number(0)
}

async fn servers(admin: &mut Admin, table: &str) -> Result<Rows, AdminError> {
    let rows = admin
        .rows(&format!("SELECT {COLUMNS} FROM {table}"))
        .await?;
    rows.iter().map(server).collect()
}

fn server(row: &TextRow) -> Result<(Key, Row), AdminError> {
    let key = Key {
        hostgroup: row.number(0)?,
        address: Address {
            host: row.text(1)?.to_owned(),
            port: row.number(2)?,
        },
    };
    let status = row.text(4)?;
    let status = Status::parse(status)
        .ok_or_else(|| AdminError::Unreadable(format!("status {status:?} of {key}")))?;
    let row = Row {
        gtid_port: row.number(3)?,
        status,
        weight: row.number(5)?,
        compression: row.number(6)?,
        max_connections: row.number(7)?,
        max_replication_lag: row.number(8)?,
        use_ssl: row.number(9)?,
        max_latency_ms: row.number(10)?,
        comment: row.text(11)?.to_owned(),
    };
    Ok((key, row))
}

async fn gating_rules(admin: &mut Admin) -> Result<Vec<u64>, AdminError> {
    let query = "SELECT rule_id FROM runtime_mysql_query_rules \
                 WHERE active=1 AND gtid_from_hostgroup IS NOT NULL ORDER BY rule_id";
    let rows = admin.rows(query).await?;
    rows.iter().map(|row| row.number(0)).collect()
}

async fn placements(admin: &mut Admin) -> Result<Vec<Placement>, AdminError> {
    let pairs = admin
        .rows("SELECT writer_hostgroup, reader_hostgroup FROM runtime_mysql_replication_hostgroups")
        .await?;
    let groups = admin
        .rows(
            "SELECT writer_hostgroup, reader_hostgroup, backup_writer_hostgroup, \
             offline_hostgroup FROM runtime_mysql_group_replication_hostgroups WHERE active=1",
        )
        .await?;
    let mut placements = Vec::with_capacity(pairs.len() + groups.len());
    for row in &pairs {
        placements.push(Placement {
            monitor: Monitor::ReadOnly,
            writer: row.number(0)?,
            reader: row.number(1)?,
            others: Vec::new(),
        });
    }
    for row in &groups {
        placements.push(Placement {
            monitor: Monitor::Group,
            writer: row.number(0)?,
            reader: row.number(1)?,
            others: vec![row.number(2)?, row.number(3)?],
        });
    }
    Ok(placements)
}

async fn cluster(admin: &mut Admin) -> Result<Vec<String>, AdminError> {
    let rows = admin
        .rows("SELECT hostname || ':' || port FROM runtime_proxysql_servers ORDER BY 1")
        .await?;
    rows.iter()
        .map(|row| row.text(0).map(str::to_owned))
        .collect()
}
