//! A connection to the admin, for tests: one statement per query, rows as text.

use anyhow::Context as _;
use mysql_async::{Conn, Row, Value, prelude::*};

use super::{ADMIN, plain_opts};

/// A row as text; `None` is NULL.
pub(crate) type Cells = Vec<Option<String>>;

/// One connection.
#[derive(Debug)]
pub(crate) struct Admin(Conn);

impl Admin {
    pub(super) async fn connect(port: u16) -> anyhow::Result<Self> {
        let (user, password) = ADMIN;
        let conn = Conn::new(plain_opts(port, user, password)).await;
        Ok(Self(conn.context("connecting to ProxySQL's admin")?))
    }

    /// Runs one statement; the answer is the number of rows that it changed.
    pub(crate) async fn run(&mut self, sql: &str) -> anyhow::Result<u64> {
        self.try_run(sql).await.with_context(|| sql.to_owned())
    }

    /// [`Self::run`], with the driver's own error.
    pub(crate) async fn try_run(&mut self, sql: &str) -> mysql_async::Result<u64> {
        self.0.query_drop(sql).await?;
        Ok(self.0.affected_rows())
    }

    /// All rows of one query.
    pub(crate) async fn rows(&mut self, sql: &str) -> anyhow::Result<Vec<Cells>> {
        let rows: Vec<Row> = self.0.query(sql).await.with_context(|| sql.to_owned())?;
        Ok(rows.into_iter().map(cells).collect())
    }

    /// The first column of the first row, which must exist and not be NULL.
    pub(crate) async fn text(&mut self, sql: &str) -> anyhow::Result<String> {
        let first = self.rows(sql).await?.into_iter().flatten().next();
        first.flatten().with_context(|| format!("nothing: {sql}"))
    }

    /// Says goodbye.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        Ok(self.0.disconnect().await?)
    }
}

fn cells(row: Row) -> Cells {
    let text = |value: Value| match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        other => Some(other.as_sql(true)),
    };
    row.unwrap().into_iter().map(text).collect()
}
