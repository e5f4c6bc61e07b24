//! Clients of the proxy, and what the tests ask and tell it.

use std::time::Duration;

use anyhow::Context as _;
use mysql_async::{Conn, Error, prelude::*};

use crate::harness::{ProxySql, Server, Topology};

pub(super) const SOON: Duration = Duration::from_secs(20);

/// Says which server answers, without a variable, which would hold the server.
pub(super) const WHO: &str = "SELECT variable_value FROM performance_schema.global_variables \
                   WHERE variable_name = 'port'";

pub(super) async fn client(proxy: &ProxySql) -> anyhow::Result<Conn> {
    Conn::new(proxy.traffic_opts("root"))
        .await
        .with_context(|| proxy.log_tail())
}

pub(super) async fn who(conn: &mut Conn, comment: &str) -> mysql_async::Result<u16> {
    let port: Option<u16> = conn.query_first(format!("{comment} {WHO}")).await?;
    Ok(port.expect("a server has a port"))
}

/// Hostgroup 10 is the source, 20 the first replica, 30 the second.
pub(super) async fn one_each(topology: &Topology) -> anyhow::Result<ProxySql> {
    let [source, first, second] = topology.servers() else {
        anyhow::bail!("three servers")
    };
    ProxySql::start(&[(10, source), (20, first), (30, second)]).await
}

pub(super) async fn set(proxy: &ProxySql, name: &str, value: &str) -> anyhow::Result<()> {
    let set = format!("SET mysql-{name} = '{value}'");
    proxy
        .admin_run(&[&set, "LOAD MYSQL VARIABLES TO RUNTIME"])
        .await
}

pub(super) fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> u16 {
    match result {
        Err(Error::Server(error)) => error.code,
        other => panic!("no error of the server: {other:?}"),
    }
}

pub(super) async fn set_status(
    proxy: &ProxySql,
    server: &Server,
    status: &str,
) -> anyhow::Result<()> {
    let sql = format!(
        "UPDATE mysql_servers SET status = '{status}' WHERE port = {}",
        server.port
    );
    proxy
        .admin_run(&[&sql, "LOAD MYSQL SERVERS TO RUNTIME"])
        .await
}
