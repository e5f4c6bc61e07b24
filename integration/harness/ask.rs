//! What a server is asked and told in SQL, as root, on a connection per call.

use std::collections::BTreeMap;

use anyhow::Context as _;
use mysql_async::{Conn, prelude::*};

use super::server::Server;

/// Global variables by name.
pub(crate) type Variables = BTreeMap<String, String>;

impl Server {
    /// Runs one statement.
    pub(crate) async fn execute(&self, sql: &str) -> anyhow::Result<()> {
        self.execute_all(&[sql]).await
    }

    /// Runs statements in order, on one connection.
    pub(crate) async fn execute_all(&self, statements: &[&str]) -> anyhow::Result<()> {
        let mut conn = self.connected().await?;
        for sql in statements {
            conn.query_drop(*sql)
                .await
                .with_context(|| format!("{self}: {sql}"))?;
        }
        Ok(conn.disconnect().await?)
    }

    /// All rows.
    pub(crate) async fn query<T>(&self, sql: &str) -> anyhow::Result<Vec<T>>
    where
        T: FromRow + Send + 'static,
    {
        let mut conn = self.connected().await?;
        let rows = conn
            .query(sql)
            .await
            .with_context(|| format!("{self}: {sql}"))?;
        conn.disconnect().await?;
        Ok(rows)
    }

    /// The first row, which must exist.
    pub(crate) async fn value<T>(&self, sql: &str) -> anyhow::Result<T>
    where
        T: FromRow + Send + 'static,
    {
        let rows = self.query(sql).await?;
        rows.into_iter()
            .next()
            .with_context(|| format!("{self}: no row: {sql}"))
    }

    /// The executed set, in one line.
    pub(crate) async fn executed(&self) -> anyhow::Result<String> {
        self.value(r"SELECT REPLACE(@@GLOBAL.gtid_executed, '\n', '')")
            .await
    }

    /// Every global variable.
    pub(crate) async fn variables(&self) -> anyhow::Result<Variables> {
        let sql = "SELECT VARIABLE_NAME, IFNULL(VARIABLE_VALUE, '') \
                   FROM performance_schema.global_variables";
        Ok(self
            .query::<(String, String)>(sql)
            .await?
            .into_iter()
            .collect())
    }

    /// The variables that someone has set since the start.
    pub(crate) async fn variables_set(&self) -> anyhow::Result<Vec<String>> {
        let sql = "SELECT VARIABLE_NAME FROM performance_schema.variables_info \
                   WHERE VARIABLE_SOURCE = 'DYNAMIC'";
        self.query(sql).await
    }

    /// Ends the connections of all clients, and leaves replication alone.
    pub(crate) async fn end_clients(&self) -> anyhow::Result<()> {
        let mut conn = self.connected().await?;
        let clients = "ID <> CONNECTION_ID() AND USER <> 'system user' \
                       AND COMMAND NOT IN ('Daemon', 'Binlog Dump GTID')";
        for kill in kills(&mut conn, clients).await? {
            // It may have ended by itself since.
            let _ = conn.query_drop(kill).await;
        }
        Ok(conn.disconnect().await?)
    }

    /// Ends the server. A source waits eight seconds for the threads that serve
    /// its replicas unless they have ended before; they are ended in the same
    /// breath, or the replicas would be back in time.
    pub(crate) async fn shut_down(&self) -> anyhow::Result<()> {
        let mut conn = self.connected().await?;
        let mut statements = kills(&mut conn, "COMMAND LIKE 'Binlog Dump%'").await?;
        statements.push("SHUTDOWN".to_owned());
        Ok(conn.query_drop(statements.join(";")).await?)
    }

    async fn connected(&self) -> anyhow::Result<Conn> {
        self.conn()
            .await
            .with_context(|| format!("connecting to {self}"))
    }
}

/// The statements that end these connections.
async fn kills(conn: &mut Conn, which: &str) -> mysql_async::Result<Vec<String>> {
    let sql = "SELECT CONCAT('KILL ', ID) FROM performance_schema.processlist WHERE ";
    conn.query(format!("{sql}{which}")).await
}
