//! The scratch table: one row for each session, in a schema of its own.
//!
//! Every run has a table of its own name, so that runs do not disturb each
//! other. A schema that was there before is never dropped.

use std::time::Duration;

use anyhow::Context;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use super::args::VerifyServer;
use super::checker::{KeyId, Version};
use super::login::{Login, label};
use super::topology::Topology;
use crate::clock;

/// How long one statement of the set-up may take.
const STATEMENT_MAX: Duration = Duration::from_secs(30);
/// How long to wait until every replica has the table.
const REPLICAS_MAX: Duration = Duration::from_secs(20);
/// How often to look whether it has.
const LOOK_EACH: Duration = Duration::from_millis(50);

/// The table of one run.
#[derive(Debug)]
pub(super) struct Table {
    schema: String,
    name: String,
    created_schema: bool,
}

impl Table {
    /// Creates the table and its rows on the source.
    pub(super) async fn create(
        login: &Login,
        source: &VerifyServer,
        schema: &str,
        rows: u32,
    ) -> anyhow::Result<Self> {
        let mut conn = login.connect_or_explain(source).await?;
        let query = format!(
            "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = '{schema}'"
        );
        let found = ask(&mut conn, &query).await?;
        let table = Self {
            schema: schema.to_owned(),
            name: format!("run_{:08x}", rand::random::<u32>()),
            created_schema: found == Some(0),
        };
        for statement in table.set_up(rows) {
            tell(&mut conn, &statement).await?;
        }
        Ok(table)
    }

    fn set_up(&self, rows: u32) -> Vec<String> {
        let values: Vec<_> = (0..rows).map(|id| format!("({id}, 0)")).collect();
        vec![
            format!("CREATE DATABASE IF NOT EXISTS `{}`", self.schema),
            format!(
                "CREATE TABLE {self} (id INT UNSIGNED PRIMARY KEY, version BIGINT UNSIGNED NOT NULL)"
            ),
            format!("INSERT INTO {self} VALUES {}", values.join(", ")),
        ]
    }

    /// Waits until the replicas have the rows. Returns the names of those that
    /// do not, in time: their reads will see no row.
    pub(super) async fn wait_for_replicas(
        &self,
        login: &Login,
        topology: &Topology,
        rows: u32,
    ) -> Vec<String> {
        let start = clock::now();
        let mut missing = Vec::new();
        for replica in &topology.replicas {
            while !self.is_on(login, replica, rows).await {
                if clock::now().since(start) > REPLICAS_MAX {
                    missing.push(replica.name.clone());
                    break;
                }
                tokio::time::sleep(LOOK_EACH).await;
            }
        }
        missing
    }

    async fn is_on(&self, login: &Login, server: &VerifyServer, rows: u32) -> bool {
        let Ok(mut conn) = login.connect(server).await else {
            return false;
        };
        let query = format!("SELECT COUNT(*) FROM {self}");
        matches!(ask(&mut conn, &query).await, Ok(Some(found)) if found == u64::from(rows))
    }

    /// Drops the table, and the schema if this run made it and it is empty.
    pub(super) async fn drop(&self, login: &Login, source: &VerifyServer) -> anyhow::Result<()> {
        let mut conn = login.connect_or_explain(source).await?;
        tell(&mut conn, &format!("DROP TABLE IF EXISTS {self}")).await?;
        let query = format!(
            "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = '{}'",
            self.schema
        );
        if self.created_schema && ask(&mut conn, &query).await? == Some(0) {
            tell(&mut conn, &format!("DROP DATABASE `{}`", self.schema)).await?;
        }
        Ok(())
    }

    /// The statement that writes a version. It only ever moves a row forward, so
    /// that a write that was given up and comes late cannot undo a newer one.
    pub(super) fn update(&self, key: KeyId, version: Version) -> String {
        format!("UPDATE {self} SET version = {version} WHERE id = {key} AND version < {version}")
    }

    /// The query that reads a version.
    pub(super) fn select(&self, key: KeyId) -> String {
        format!("SELECT version FROM {self} WHERE id = {key}")
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}`.`{}`", self.schema, self.name)
    }
}

async fn tell(conn: &mut Conn, statement: &str) -> anyhow::Result<()> {
    let done = tokio::time::timeout(STATEMENT_MAX, conn.query_drop(statement)).await;
    let short: String = statement.chars().take(80).collect();
    done.context("no answer in time")
        .and_then(|result| result.map_err(|error| anyhow::anyhow!(label(&error))))
        .with_context(|| format!("the source refused: {short}"))
}

async fn ask(conn: &mut Conn, query: &str) -> anyhow::Result<Option<u64>> {
    let asked = conn.query_first::<Option<u64>, _>(query);
    let answer = tokio::time::timeout(STATEMENT_MAX, asked).await;
    Ok(answer.context("no answer in time")??.flatten())
}
