//! Real replication lag, made the way busy applications make it.
//!
//! After "Replica Preserve Commit Order and Measuring Lag": small transactions on
//! a `fast` table beside an occasional update of 60,000 rows of a `slow` table,
//! found by a table scan. The source runs that as one statement; a replica has to
//! apply 60,000 row images, and whatever was committed after it must wait. So
//! replicas stall for some hundred milliseconds now and then, and keep up
//! otherwise.

use std::time::Duration;

use anyhow::Context as _;
use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use tokio::task::AbortHandle;

use crate::harness::{Server, Topology};

const ROWS: u32 = 100_000;
/// Rows changed at once.
const RANGE: u32 = 60_000;
/// Between two slow updates.
const SLOW_PAUSE: Duration = Duration::from_millis(2_500);
/// Between two fast updates.
const FAST_PAUSE: Duration = Duration::from_millis(10);

/// The lag goes on until this is dropped.
#[derive(Debug)]
pub(crate) struct Lag {
    tasks: [AbortHandle; 2],
}

impl Lag {
    /// Fills the tables, waits for the replicas, and starts the two clients.
    pub(crate) async fn start(topology: &Topology) -> anyhow::Result<Self> {
        let source = topology.source();
        let statements = set_up();
        source
            .execute_all(&statements.each_ref().map(String::as_str))
            .await?;
        topology.wait_caught_up().await?;
        let slow = update_slow(connect(source).await?);
        let fast = update_fast(connect(source).await?);
        let tasks = [
            tokio::spawn(report("slow", slow)).abort_handle(),
            tokio::spawn(report("fast", fast)).abort_handle(),
        ];
        Ok(Self { tasks })
    }
}

impl Drop for Lag {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn connect(source: &Server) -> anyhow::Result<Conn> {
    source.conn().await.context("connecting to make lag")
}

/// The rows of `slow` are wide, and `place` has no index.
fn set_up() -> [String; 5] {
    [
        "CREATE DATABASE demo".to_owned(),
        "CREATE TABLE demo.fast (id INT PRIMARY KEY, n INT NOT NULL)".to_owned(),
        "CREATE TABLE demo.slow (id INT PRIMARY KEY, place INT NOT NULL, n INT NOT NULL, \
         pad CHAR(200) NOT NULL DEFAULT 'x')"
            .to_owned(),
        format!("INSERT INTO demo.slow (id, place, n) {NUMBERS} WHERE id <= {ROWS}"),
        "INSERT INTO demo.fast SELECT id, 0 FROM demo.slow WHERE id <= 1000".to_owned(),
    ]
}

/// `(id, id, 0)` for each number from 1 to 100,000.
const NUMBERS: &str = "\
    WITH RECURSIVE digits AS (SELECT 0 AS d UNION ALL SELECT d + 1 FROM digits WHERE d < 9) \
    SELECT id, id, 0 FROM ( \
      SELECT 1 + a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d AS id \
      FROM digits a, digits b, digits c, digits e, digits f) AS numbers";

async fn update_slow(mut conn: Conn) -> anyhow::Result<()> {
    for round in 0_u32.. {
        tokio::time::sleep(SLOW_PAUSE).await;
        let first = round.wrapping_mul(7_919) % (ROWS - RANGE);
        let last = first + RANGE;
        let update =
            format!("UPDATE demo.slow SET n = n + 1 WHERE place BETWEEN {first} AND {last}");
        conn.query_drop(update).await?;
    }
    Ok(())
}

async fn update_fast(mut conn: Conn) -> anyhow::Result<()> {
    for round in 0_u32.. {
        tokio::time::sleep(FAST_PAUSE).await;
        let id = 1 + round % 1_000;
        conn.query_drop(format!("UPDATE demo.fast SET n = n + 1 WHERE id = {id}"))
            .await?;
    }
    Ok(())
}

/// Without lag the demo would show nothing, so its end must not go unseen.
async fn report(name: &str, client: impl Future<Output = anyhow::Result<()>>) {
    if let Err(error) = client.await {
        eprintln!("demo: the {name} client ended, there is less lag from here on: {error:#}");
    }
}
