//! The questions that give evidence, and their answers as samples.

use std::sync::Arc;
use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use super::connect::{fault, within};
use crate::clock;
use crate::fleet::{Fault, Identity, Sample};
use crate::gtid::{self, GtidSet, Uuid};

/// The shortest barrier. MySQL takes a timeout of 0 to mean "for ever".
const BARRIER_MIN: Duration = Duration::from_millis(1);

/// Reads executed sets from text, keeping the last one: a server that has
/// nothing new to say costs no parsing.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// Who answers on the connection.
    server: Uuid,
    text: String,
    set: Arc<GtidSet>,
}

impl Reader {
    /// For a connection to this server.
    pub(super) fn of(server: &Identity) -> Self {
        Self {
            server: server.uuid,
            ..Self::default()
        }
    }

    fn read(&mut self, text: String) -> Result<Arc<GtidSet>, Fault> {
        if text != self.text {
            self.set = Arc::new(executed(&text)?);
            self.text = text;
        }
        Ok(Arc::clone(&self.set))
    }
}

fn executed(text: &str) -> Result<GtidSet, Fault> {
    let unlimited = gtid::Limits {
        bytes_max: usize::MAX,
        intervals_max: usize::MAX,
    };
    GtidSet::parse(text, unlimited)
        .map_err(|error| Fault::Unreadable(format!("gtid_executed: {error}")))
}

/// The statement that waits for `need` and then tells the executed set.
pub(super) fn barrier_statement(need: &GtidSet, timeout: Duration) -> String {
    let timeout = timeout.max(BARRIER_MIN).as_secs_f64();
    format!(
        "SELECT WAIT_FOR_EXECUTED_GTID_SET('{need}',{timeout:.6}),@@GLOBAL.gtid_executed,@@GLOBAL.read_only"
    )
}

/// Waits on the server until `need` is visible or `timeout` has passed.
pub(super) async fn barrier(
    conn: &mut Conn,
    reader: &mut Reader,
    need: &GtidSet,
    timeout: Duration,
    grace: Duration,
) -> Result<Sample, Fault> {
    let statement = barrier_statement(need, timeout);
    let asked = clock::now();
    let row: (Option<i64>, Option<String>, Option<i64>) =
        within(timeout + grace, one_row(conn, statement)).await?;
    let answered = clock::now();
    let (Some(timed_out), Some(text), read_only) = row else {
        return Err(Fault::Unreadable("the barrier answered NULL".into()));
    };
    let mut set = reader.read(text)?;
    match timed_out {
        // What the barrier vouches for is evidence even where the set beside it
        // was read earlier.
        0 if !set.contains_set(need) => set = Arc::new(set.union(need)),
        0 | 1 => {}
        other => return Err(Fault::Unreadable(format!("the barrier answered {other}"))),
    }
    Ok(Sample {
        server: reader.server,
        owned: None,
        set,
        asked,
        answered,
        read_only: read_only.map(|flag| flag != 0),
    })
}

/// The executed set as of now.
pub(super) async fn sample(
    conn: &mut Conn,
    reader: &mut Reader,
    deadline: Duration,
) -> Result<Sample, Fault> {
    let asked = clock::now();
    let row: (Option<String>, Option<i64>) = within(
        deadline,
        one_row(
            conn,
            "SELECT @@GLOBAL.gtid_executed,@@GLOBAL.read_only".into(),
        ),
    )
    .await?;
    let answered = clock::now();
    let (Some(text), read_only) = row else {
        return Err(Fault::Unreadable("gtid_executed is NULL".into()));
    };
    Ok(Sample {
        server: reader.server,
        owned: None,
        set: reader.read(text)?,
        asked,
        answered,
        read_only: read_only.map(|flag| flag != 0),
    })
}

/// The transactions that are being committed, and the executed set read after
/// them: together they bound what the server could have shown before.
pub(super) async fn owned_and_executed(
    conn: &mut Conn,
    reader: &mut Reader,
    deadline: Duration,
) -> Result<(GtidSet, Sample), Fault> {
    let statement = "SELECT @@GLOBAL.gtid_owned,@@GLOBAL.gtid_executed,@@GLOBAL.read_only";
    let asked = clock::now();
    let row: (Option<String>, Option<String>, Option<i64>) =
        within(deadline, one_row(conn, statement.into())).await?;
    let answered = clock::now();
    let (Some(owned), Some(text), read_only) = row else {
        return Err(Fault::Unreadable("gtid_owned is NULL".into()));
    };
    let owned = gtid::parse_owned(&owned)
        .map_err(|error| Fault::Unreadable(format!("gtid_owned: {error}")))?;
    let set = reader.read(text)?;
    Ok((
        owned.clone(),
        Sample {
            server: reader.server,
            owned: Some(Arc::new(owned)),
            set,
            asked,
            answered,
            read_only: read_only.map(|flag| flag != 0),
        },
    ))
}

async fn one_row<R>(conn: &mut Conn, statement: String) -> Result<R, Fault>
where
    R: mysql_async::prelude::FromRow + Send + 'static,
{
    let row: Option<mysql_async::Row> = conn
        .query_first(statement)
        .await
        .map_err(|error| fault(&error))?;
    let row = row.ok_or_else(|| Fault::Unreadable("no row where there should be one".into()))?;
    mysql_async::from_row_opt(row).map_err(|error| Fault::Unreadable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MySQL waits for ever on a timeout of 0.
    #[test]
    fn a_barrier_never_has_a_timeout_of_zero() {
        let need: GtidSet = "3e11fa47-71ca-11e1-9e33-c80aa9429562:23".parse().unwrap();
        for asked in [
            Duration::ZERO,
            Duration::from_nanos(1),
            Duration::from_micros(999),
        ] {
            let statement = barrier_statement(&need, asked);
            assert!(statement.contains("',0.001000)"), "{statement}");
        }
        let statement = barrier_statement(&need, Duration::from_millis(50));
        assert!(
            statement.contains("'3e11fa47-71ca-11e1-9e33-c80aa9429562:23',0.050000)"),
            "{statement}"
        );
    }

    #[test]
    fn the_same_text_is_read_once_and_broken_text_is_an_error() {
        let mut reader = Reader::default();
        let text = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-23".to_owned();
        let first = reader.read(text.clone()).unwrap();
        assert!(Arc::ptr_eq(&first, &reader.read(text).unwrap()));
        assert!(matches!(
            reader.read("3e11fa47:1-".into()),
            Err(Fault::Unreadable(_))
        ));
    }
}
