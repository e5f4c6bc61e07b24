//! The monitor: who is read-only, and who lags by whole seconds.
//!
//! It moves and shuns servers at runtime only. A server that does not answer in
//! time keeps its place; ProxySQL's pings, and what it concludes from several
//! answers that are missing, are not here.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::future::join_all;
use mysql_async::{Conn, OptsBuilder, Row, prelude::*};

use super::{Shared, hosts::Status, state::State};

/// How long one answer may take.
const ANSWER_WITHIN: Duration = Duration::from_millis(800);

/// How soon a changed interval takes effect.
const SLICE: Duration = Duration::from_millis(20);

type Address = (String, u16);

/// Connections to the servers, kept from one look to the next.
#[derive(Debug, Default)]
struct Connections(HashMap<Address, Conn>);

impl Connections {
    /// Asks every server at once; those that fail are not in the answer.
    async fn ask<'a>(
        &mut self,
        shared: &Shared,
        questions: impl IntoIterator<Item = (Address, &'a str)>,
    ) -> Vec<(Address, Option<Row>)> {
        let asked = questions.into_iter().map(|(address, sql)| {
            let kept = self.0.remove(&address);
            let opts = opts(shared, &address);
            async move {
                let asking = async {
                    let mut conn = match kept {
                        Some(conn) => conn,
                        None => Conn::new(opts).await?,
                    };
                    let row: Option<Row> = conn.query_first(sql).await?;
                    mysql_async::Result::Ok((conn, row))
                };
                let answer = tokio::time::timeout(ANSWER_WITHIN, asking).await;
                Some((address, answer.ok()?.ok()?))
            }
        });
        let answers = join_all(asked.collect::<Vec<_>>()).await;
        let mut rows = Vec::new();
        for (address, (conn, row)) in answers.into_iter().flatten() {
            self.0.insert(address.clone(), conn);
            rows.push((address, row));
        }
        rows
    }
}

fn opts(shared: &Shared, (host, port): &Address) -> OptsBuilder {
    let state = shared.state.lock();
    OptsBuilder::default()
        .ip_or_hostname(host)
        .tcp_port(*port)
        .prefer_socket(false)
        .max_allowed_packet(Some(1 << 24))
        .wait_timeout(Some(28_800))
        .user(Some(state.variable("mysql-monitor_username")))
        .pass(Some(state.variable("mysql-monitor_password")))
}

/// Rests for an interval, which may change meanwhile.
async fn rest(shared: &Shared, interval: &str) {
    let mut rested = Duration::ZERO;
    while rested < shared.millis(interval) {
        tokio::time::sleep(SLICE).await;
        rested += SLICE;
    }
}

/// Looks at `read_only` of the servers in pairs of hostgroups, again and again.
pub(super) async fn watch_read_only(shared: Arc<Shared>) {
    let mut connections = Connections::default();
    loop {
        rest(&shared, "mysql-monitor_read_only_interval").await;
        if !shared.state.lock().is_on("mysql-monitor_enabled") {
            continue;
        }
        let pairs = shared.state.lock().pairs.clone();
        for pair in pairs {
            let check = format!("SELECT @@GLOBAL.{}", expression(&pair.check));
            let hosts = shared.state.lock().hosts.monitored(&pair);
            let questions = hosts.into_iter().map(|host| (host, check.as_str()));
            for (host, row) in connections.ask(&shared, questions).await {
                let Some(read_only) = row.and_then(|row| row.get::<bool, _>(0)) else {
                    continue;
                };
                let mut state = shared.state.lock();
                let writer_reads = state.is_on("mysql-monitor_writer_is_also_reader");
                if state.hosts.place(&pair, &host, read_only, writer_reads) {
                    state.servers_moved().expect("the tables are there");
                }
            }
        }
    }
}

fn expression(check: &str) -> String {
    let check = check.replace('|', " | @@GLOBAL.");
    check.replace('&', " & @@GLOBAL.")
}

/// Compares the lag of the servers with their `max_replication_lag`, again and again.
pub(super) async fn watch_lag(shared: Arc<Shared>) {
    let mut connections = Connections::default();
    loop {
        rest(&shared, "mysql-monitor_replication_lag_interval").await;
        let (rows, when_null, question) = {
            let state = shared.state.lock();
            let judged = state.hosts.0.iter().filter(|(_, host)| {
                host.max_replication_lag > 0
                    && !matches!(host.status, Status::OfflineSoft | Status::OfflineHard)
            });
            let rows: Vec<_> = judged.map(|(key, _)| key.clone()).collect();
            let when_null = state.variable("mysql-monitor_slave_lag_when_null");
            (rows, when_null.parse().ok(), lag_question(&state))
        };
        let mut hosts: Vec<_> = rows
            .iter()
            .map(|(_, name, port)| (name.clone(), *port))
            .collect();
        hosts.dedup();
        let questions = hosts.into_iter().map(|host| (host, question.as_str()));
        let answers = connections.ask(&shared, questions).await;
        for ((name, port), row) in answers {
            // A server without this row replicates from nobody.
            let Some(row) = row else { continue };
            let lag = row.get_opt::<Option<u32>, _>(lag_column(&row));
            let lag = lag.and_then(Result::ok).flatten();
            let mut state = shared.state.lock();
            for key in rows.iter().filter(|key| key.1 == name && key.2 == port) {
                state.hosts.judge_lag(key, lag.or(when_null));
            }
        }
    }
}

fn lag_question(state: &State) -> String {
    match state.variable("mysql-monitor_replication_lag_use_percona_heartbeat") {
        "" => "SHOW REPLICA STATUS".to_owned(),
        table => format!(
            "SELECT MAX(ROUND(TIMESTAMPDIFF(MICROSECOND, ts, SYSDATE(6)) / 1000000)) FROM {table}"
        ),
    }
}

/// The status of a replica has its column's name, the heartbeat's answer is one column.
fn lag_column(row: &Row) -> usize {
    let columns = row.columns_ref();
    let named = columns
        .iter()
        .position(|column| column.name_ref() == b"Seconds_Behind_Source");
    named.unwrap_or(0)
}
