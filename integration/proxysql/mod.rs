//! ProxySQL kept in step: on a real one where it is found, else on the stand-in.

mod commands;
mod faults;
mod hints;
mod tiers;
mod verify;

use anyhow::Context as _;
use causeway::router::Router;

use crate::harness::proxysql::{ADMIN, ProxySql};
use crate::harness::{Server, Topology, until};
use crate::support::{SOON, config_text, knows_every_server};

/// The hostgroups that an administrator has made.
const WRITER: u32 = 10;
const READER: u32 = 20;
/// An own tier of the tests.
const TIER: u32 = 21;
/// Where the hint hostgroups begin.
const BASE: u32 = 9000;

/// A ProxySQL before a topology: the source in the writer hostgroup, the replicas
/// in the reader hostgroup.
async fn proxy(topology: &Topology) -> anyhow::Result<ProxySql> {
    let mut rows = vec![(WRITER, topology.source())];
    rows.extend(topology.replicas().map(|replica| (READER, replica)));
    ProxySql::start(&rows).await
}

/// The same, with ProxySQL's read_only monitor placing the servers.
async fn monitored(topology: &Topology) -> anyhow::Result<ProxySql> {
    let proxy = proxy(topology).await?;
    let pair = format!(
        "INSERT INTO mysql_replication_hostgroups (writer_hostgroup, reader_hostgroup, \
         check_type, comment) VALUES ({WRITER}, {READER}, 'read_only', '')"
    );
    let statements = [
        pair.as_str(),
        "LOAD MYSQL SERVERS TO RUNTIME",
        "SAVE MYSQL SERVERS TO DISK",
    ];
    proxy.admin_run(&statements).await?;
    Ok(proxy)
}

/// The `[proxysql]` section for these instances, with `more` appended.
fn section(instances: &[&ProxySql], more: &str) -> String {
    let entry = |(n, proxy): (usize, &&ProxySql)| {
        format!(
            "{{ name = \"px{n}\", address = {:?} }}",
            proxy.admin_address()
        )
    };
    let instances: Vec<String> = instances.iter().enumerate().map(entry).collect();
    let (user, password) = ADMIN;
    format!(
        "\n[proxysql]\nuser = {user:?}\npassword = {password:?}\ninterval = \"100ms\"\n\
         instances = [{}]\n{more}",
        instances.join(", ")
    )
}

/// Hints and one tier, whose bound no working replica of the tests crosses.
fn tier(hostgroup: u32, more: &str) -> String {
    format!(
        "[[proxysql.tier]]\nhostgroup = {hostgroup}\nmax_staleness = \"2s\"\ndwell = \"300ms\"\n{more}\n"
    )
}

fn hints() -> String {
    format!("[proxysql.hints]\nbase = {BASE}\n")
}

async fn router(topology: &Topology, proxysql: &str) -> anyhow::Result<Router> {
    let text = config_text(topology, "causeway-pw") + proxysql;
    let config = causeway::config::Config::parse(&text, &|_| None)?;
    let router = Router::start(&config);
    knows_every_server(&router).await?;
    Ok(router)
}

/// What takes work in a hostgroup, as ports, in order.
async fn online(proxy: &ProxySql, hostgroup: u32) -> anyhow::Result<Vec<u16>> {
    let rows = proxy
        .admin_rows(&format!(
            "SELECT port FROM runtime_mysql_servers WHERE hostgroup_id={hostgroup} \
             AND status='ONLINE' ORDER BY port"
        ))
        .await?;
    let port = |row: &Vec<Option<String>>| -> anyhow::Result<u16> {
        let text = row.first().cloned().flatten().context("a port")?;
        Ok(text.parse()?)
    };
    rows.iter().map(port).collect()
}

/// Waits until exactly these servers take work in a hostgroup.
async fn until_online(proxy: &ProxySql, hostgroup: u32, servers: &[&Server]) -> anyhow::Result<()> {
    let mut ports: Vec<u16> = servers.iter().map(|server| server.port).collect();
    ports.sort_unstable();
    let what = format!("{ports:?} to be all that is online in hostgroup {hostgroup}");
    until(&what, SOON, || async {
        Ok((online(proxy, hostgroup).await? == ports).then_some(()))
    })
    .await
}

/// The status of one row in force.
async fn status(proxy: &ProxySql, hostgroup: u32, server: &Server) -> anyhow::Result<String> {
    let rows = proxy
        .admin_rows(&format!(
            "SELECT status FROM runtime_mysql_servers WHERE hostgroup_id={hostgroup} AND port={}",
            server.port
        ))
        .await?;
    let row = rows.first().cloned().unwrap_or_default();
    Ok(row
        .into_iter()
        .flatten()
        .next()
        .unwrap_or_else(|| "absent".to_owned()))
}

/// LOADs of `mysql_servers` since the instance started.
async fn loads(proxy: &ProxySql) -> anyhow::Result<u64> {
    let query = "SELECT version FROM runtime_checksums_values WHERE name='mysql_servers'";
    let rows = proxy.admin_rows(query).await?;
    let version = rows.first().and_then(|row| row.first().cloned().flatten());
    Ok(version.context("a version")?.parse()?)
}

/// The port of the server that answers, asked so that multiplexing stays on.
const WHO: &str = "SELECT variable_value FROM performance_schema.global_variables \
                   WHERE variable_name='port'";
