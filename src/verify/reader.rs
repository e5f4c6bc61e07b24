//! One session's reads: its own connection to each server.

use std::collections::HashMap;
use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::{FromRow, Queryable};

use super::args::VerifyServer;
use super::checker::Version;
use super::login::{Login, label};

/// How long the database may take for one row.
const READ_MAX: Duration = Duration::from_secs(5);
/// On top of a barrier's own time-out.
const BARRIER_MARGIN: Duration = Duration::from_secs(2);
/// "Unknown database" and "no such table": the scratch table has not yet come
/// through replication, which is a stale read and no failure.
const NOT_THERE: [u16; 2] = [1049, 1146];

/// Is the server that answers read-only? `@@read_only` would say so too, but makes
/// ProxySQL keep the connection to that server.
const WHO: &str = "SELECT variable_value FROM performance_schema.global_variables \
                   WHERE variable_name = 'read_only'";

/// The connections of one session.
#[derive(Debug)]
pub(super) struct Reader {
    login: Login,
    conns: HashMap<(String, u16), Conn>,
}

impl Reader {
    pub(super) fn new(login: Login) -> Self {
        let conns = HashMap::new();
        Self { login, conns }
    }

    /// Connects ahead of time, so that the first reads do not pay for it. What
    /// fails is tried again, and counted, when it is needed.
    pub(super) async fn warm_up(&mut self, servers: &[VerifyServer]) {
        for server in servers {
            if let Ok(conn) = self.login.connect(server).await {
                self.conns.insert((server.host.clone(), server.port), conn);
            }
        }
    }

    /// The version in the row that `query` selects, `None` if it is not there.
    pub(super) async fn read(
        &mut self,
        server: &VerifyServer,
        query: &str,
    ) -> Result<Option<Version>, String> {
        let result = self.ask::<Option<u64>>(server, query, READ_MAX).await;
        let answer = result.map_err(|error| format!("read: {error}"))?;
        Ok(answer.flatten())
    }

    /// Whether a read-only server answers queries that begin with this comment.
    pub(super) async fn is_replica(
        &mut self,
        proxy: &VerifyServer,
        comment: &str,
    ) -> Result<bool, String> {
        let query = format!("{comment}{WHO}");
        let result = self.ask::<String>(proxy, &query, READ_MAX).await;
        let answer = result.map_err(|error| format!("who answers: {error}"))?;
        Ok(answer.as_deref() == Some("ON"))
    }

    /// Waits on the server until it has executed `gtid`; `false` on time-out.
    pub(super) async fn barrier(
        &mut self,
        server: &VerifyServer,
        gtid: &str,
        wait: Duration,
    ) -> Result<bool, String> {
        // `gtid` has been validated: it holds no quote. 0 would wait forever.
        let seconds = wait.max(Duration::from_millis(1)).as_secs_f64();
        let query = format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{gtid}', {seconds:.6})");
        let result = self.ask::<Option<u64>>(server, &query, wait + BARRIER_MARGIN);
        match result.await {
            Ok(answer) => Ok(answer.flatten() == Some(0)),
            Err(error) => Err(format!("barrier: {error}")),
        }
    }

    /// One query for one row. A connection that failed is not used again.
    async fn ask<T: FromRow + Send + 'static>(
        &mut self,
        server: &VerifyServer,
        query: &str,
        deadline: Duration,
    ) -> Result<Option<T>, String> {
        let key = (server.host.clone(), server.port);
        let mut conn = match self.conns.remove(&key) {
            Some(conn) => conn,
            None => self.login.connect(server).await?,
        };
        let answer = tokio::time::timeout(deadline, conn.query_first::<T, _>(query)).await;
        let answer = match answer {
            Err(_) => return Err("no answer in time".into()),
            Ok(Err(mysql_async::Error::Server(error))) if NOT_THERE.contains(&error.code) => None,
            Ok(Err(error)) => return Err(label(&error)),
            Ok(Ok(answer)) => answer,
        };
        self.conns.insert(key, conn);
        Ok(answer)
    }
}
