//! The slow status poll: roles, replication details, load.

use std::sync::atomic::Ordering;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};

use super::Target;
use super::connect::{fault, within};
use super::statements::Statements;
use crate::clock;
use crate::fleet::{Channel, Event, Fault, Identity, Status};
use crate::gtid::GtidSet;

/// Polls until the connection is of no use any more.
pub(super) async fn serve(target: Target, mut conn: Conn, identity: Identity) -> Fault {
    let timeout = target.settings.query_timeout;
    let statements = Statements::of(identity.version);
    let server = identity.uuid;
    let shared = target.hub.server(target.ix);
    loop {
        let asked = clock::now();
        let status = match within(timeout, status(&mut conn, statements)).await {
            Ok(status) => status,
            Err(fault) => return fault,
        };
        let polled = Event::Polled {
            server,
            status,
            asked,
        };
        target.hub.observe(target.ix, polled);
        shared.stats.status_polls.fetch_add(1, Ordering::Relaxed);
        let due =
            tokio::time::timeout(target.settings.status_interval, shared.poll_now.notified()).await;
        if due.is_ok() {
            // Asked for early: at most one such poll in a hundredth of the interval.
            tokio::time::sleep(target.settings.status_interval / 100).await;
        }
    }
}

/// One poll.
pub(crate) async fn status(conn: &mut Conn, statements: Statements) -> Result<Status, Fault> {
    let query = format!(
        "SELECT @@GLOBAL.read_only, {}",
        statements.preserve_commit_order
    );
    let row: Option<Row> = conn
        .query_first(query)
        .await
        .map_err(|error| fault(&error))?;
    let row = row.ok_or_else(|| Fault::Unreadable("no row of settings".into()))?;
    let (read_only, preserve_commit_order): (i64, Option<i64>) =
        mysql_async::from_row_opt(row).map_err(|error| Fault::Unreadable(error.to_string()))?;
    Ok(Status {
        read_only: read_only != 0,
        preserve_commit_order: preserve_commit_order.map(|on| on != 0),
        threads_running: threads_running(conn).await?,
        channels: channels(conn, statements).await?,
        binary_log: binary_log(conn, statements).await?,
    })
}

async fn threads_running(conn: &mut Conn) -> Result<Option<u32>, Fault> {
    let query = "SELECT VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME='Threads_running'";
    let value: Option<String> = conn
        .query_first(query)
        .await
        .map_err(|error| fault(&error))?;
    value
        .map(|text| {
            text.parse()
                .map_err(|_| Fault::Unreadable(format!("Threads_running {text:?}")))
        })
        .transpose()
}

async fn binary_log(
    conn: &mut Conn,
    statements: Statements,
) -> Result<Option<(String, u64)>, Fault> {
    let row: Option<Row> = conn
        .query_first(statements.binary_log_status)
        .await
        .map_err(|error| fault(&error))?;
    let Some(row) = row else { return Ok(None) };
    let file = required(&row, "File")?;
    let position = required(&row, "Position")?;
    let position = position
        .parse()
        .map_err(|_| Fault::Unreadable(format!("Position {position:?}")))?;
    Ok(Some((file, position)))
}

async fn channels(conn: &mut Conn, statements: Statements) -> Result<Vec<Channel>, Fault> {
    let rows: Vec<Row> = conn
        .query(statements.replica_status)
        .await
        .map_err(|error| fault(&error))?;
    let channels = rows
        .iter()
        .map(|row| channel(row, statements))
        .collect::<Result<Vec<_>, _>>()?;
    // Group Replication's own channels say nothing about who is the source.
    Ok(channels
        .into_iter()
        .filter(|channel| !channel.name.starts_with("group_replication_"))
        .collect())
}

/// One row of the replica status. A missing column or a value that should not be
/// there is an error: it must never read as "no lag" or "not a replica".
fn channel(row: &Row, statements: Statements) -> Result<Channel, Fault> {
    let columns = statements.columns;
    let receiver = required(row, columns.receiver_running)?;
    let uuid = required(row, columns.source_uuid)?;
    let received = required(row, "Retrieved_Gtid_Set")?;
    Ok(Channel {
        name: required(row, "Channel_Name")?,
        source_address: format!(
            "{}:{}",
            required(row, columns.source_host)?,
            required(row, columns.source_port)?
        ),
        source_uuid: if uuid.is_empty() {
            None
        } else {
            Some(
                uuid.parse()
                    .map_err(|_| unreadable(columns.source_uuid, &uuid))?,
            )
        },
        receiver_running: one_of(
            columns.receiver_running,
            &receiver,
            &["Yes", "No", "Connecting"],
        )? == 0,
        receiver_connecting: receiver == "Connecting",
        applier_running: one_of(
            columns.applier_running,
            &required(row, columns.applier_running)?,
            &["Yes", "No"],
        )? == 0,
        received: Some(
            received
                .parse::<GtidSet>()
                .map_err(|_| unreadable("Retrieved_Gtid_Set", &received))?,
        ),
        error: ["Last_SQL_Error", "Last_IO_Error"]
            .into_iter()
            .find_map(|column| {
                text(row, column)
                    .ok()
                    .flatten()
                    .filter(|error| !error.is_empty())
            }),
        delay_s: text(row, "SQL_Delay")?
            .map(|delay| delay.parse().map_err(|_| unreadable("SQL_Delay", &delay)))
            .transpose()?,
    })
}

fn one_of(column: &str, value: &str, allowed: &[&str]) -> Result<usize, Fault> {
    allowed
        .iter()
        .position(|known| *known == value)
        .ok_or_else(|| unreadable(column, value))
}

fn required(row: &Row, column: &str) -> Result<String, Fault> {
    text(row, column)?.ok_or_else(|| unreadable(column, "NULL"))
}

fn text(row: &Row, column: &str) -> Result<Option<String>, Fault> {
    let value = row
        .get_opt::<Option<String>, _>(column)
        .ok_or_else(|| Fault::Unreadable(format!("no column {column} in the replica status")))?;
    value.map_err(|error| unreadable(column, &error.to_string()))
}

fn unreadable(column: &str, value: &str) -> Fault {
    Fault::Unreadable(format!("{column} is {value:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Version;
    use mysql_async::Value;
    use mysql_async::consts::ColumnType;
    use mysql_common::row::new_row;

    const GOOD: [(&str, Option<&str>); 10] = [
        ("Channel_Name", Some("")),
        ("Source_Host", Some("db1")),
        ("Source_Port", Some("3306")),
        ("Source_UUID", Some("3e11fa47-71ca-11e1-9e33-c80aa9429562")),
        ("Replica_IO_Running", Some("Yes")),
        ("Replica_SQL_Running", Some("Yes")),
        (
            "Retrieved_Gtid_Set",
            Some("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7"),
        ),
        ("Last_SQL_Error", Some("")),
        ("Last_IO_Error", Some("")),
        ("SQL_Delay", Some("0")),
    ];

    fn row(values: &[(&str, Option<&str>)]) -> Row {
        let column = |name: &str| {
            mysql_async::Column::new(ColumnType::MYSQL_TYPE_VAR_STRING).with_name(name.as_bytes())
        };
        let columns: Vec<_> = values.iter().map(|(name, _)| column(name)).collect();
        let values = values
            .iter()
            .map(|(_, value)| value.map_or(Value::NULL, Value::from))
            .collect();
        new_row(values, columns.into())
    }

    fn read(values: &[(&str, Option<&str>)]) -> Result<Channel, Fault> {
        channel(&row(values), Statements::of(Version::new(9, 7, 4)))
    }

    #[test]
    fn a_healthy_row_is_read() {
        let channel = read(&GOOD).unwrap();
        assert!(channel.receiver_running && channel.applier_running);
        assert_eq!(
            (
                channel.source_address.as_str(),
                channel.error,
                channel.delay_s
            ),
            ("db1:3306", None, Some(0))
        );
        assert_eq!(channel.received.map(|set| set.count()), Some(7));
    }

    /// NULL or nonsense must never read as "running" or "no lag".
    #[test]
    fn a_null_or_undecodable_value_is_an_error() {
        for column in [
            "Replica_IO_Running",
            "Replica_SQL_Running",
            "Retrieved_Gtid_Set",
            "Source_UUID",
            "Source_Host",
        ] {
            let changed =
                |value| GOOD.map(|(name, good)| (name, if name == column { value } else { good }));
            let error = read(&changed(None)).unwrap_err().to_string();
            assert!(error.contains(column) && error.contains("NULL"), "{error}");
            let missing: Vec<_> = GOOD
                .into_iter()
                .filter(|(name, _)| *name != column)
                .collect();
            assert!(read(&missing).unwrap_err().to_string().contains(column));
            if column != "Source_Host" {
                let error = read(&changed(Some("perhaps"))).unwrap_err().to_string();
                assert!(
                    error.contains(column) && error.contains("perhaps"),
                    "{error}"
                );
            }
        }
        let delay = GOOD.map(|(name, good)| {
            (
                name,
                if name == "SQL_Delay" {
                    Some("soon")
                } else {
                    good
                },
            )
        });
        assert!(read(&delay).unwrap_err().to_string().contains("SQL_Delay"));
    }

    #[test]
    fn an_unconnected_receiver_has_no_source_uuid() {
        let fresh = GOOD.map(|(name, good)| match name {
            "Source_UUID" => (name, Some("")),
            "Replica_IO_Running" => (name, Some("Connecting")),
            _ => (name, good),
        });
        let channel = read(&fresh).unwrap();
        assert_eq!(
            (
                channel.source_uuid,
                channel.receiver_running,
                channel.receiver_connecting
            ),
            (None, false, true)
        );
    }
}
