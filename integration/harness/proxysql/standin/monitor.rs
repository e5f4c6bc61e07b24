//! The monitor: who is read-only, and who lags by whole seconds.
//!
//! It moves and shuns servers at runtime only. A server that does not answer in
//! time keeps its place; ProxySQL's pings, and what it concludes from several
//! answers that are missing, are not here.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::future::join_all;
use mysql_async::{Conn, OptsBuilder, Row, prelude::*};

use super::{Shared, hosts::Status};

/// How long one answer may take.
const ANSWER_WITHIN: Duration = Duration::from_millis(800);

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

/// Looks at `read_only` of the servers in pairs of hostgroups, again and again.
pub(super) async fn watch_read_only(shared: Arc<Shared>) {
    let mut connections = Connections::default();
    loop {
        let pause = shared.millis("mysql-monitor_read_only_interval");
        tokio::time::sleep(pause).await;
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
        let pause = shared.millis("mysql-monitor_replication_lag_interval");
        tokio::time::sleep(pause).await;
        let (rows, when_null) = {
            let state = shared.state.lock();
            let judged = state.hosts.0.iter().filter(|(_, host)| {
                host.max_replication_lag > 0
                    && !matches!(host.status, Status::OfflineSoft | Status::OfflineHard)
            });
            let rows: Vec<_> = judged.map(|(key, _)| key.clone()).collect();
            (
                rows,
                state
                    .variable("mysql-monitor_slave_lag_when_null")
                    .parse()
                    .ok(),
            )
        };
        let mut hosts: Vec<_> = rows
            .iter()
            .map(|(_, name, port)| (name.clone(), *port))
            .collect();
        hosts.dedup();
        let questions = hosts.into_iter().map(|host| (host, "SHOW REPLICA STATUS"));
        let answers = connections.ask(&shared, questions).await;
        for ((name, port), row) in answers {
            // A server without this row replicates from nobody.
            let Some(row) = row else { continue };
            let lag = row.get::<Option<u32>, _>("Seconds_Behind_Source").flatten();
            let mut state = shared.state.lock();
            for key in rows.iter().filter(|key| key.1 == name && key.2 == port) {
                state.hosts.judge_lag(key, lag.or(when_null));
            }
        }
    }
}
