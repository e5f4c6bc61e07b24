//! ProxySQL for the demo: the usual writer and reader hostgroups, with the monitor
//! of `read_only` placing the servers and one rule that splits reads from writes.
//!
//! Only a real ProxySQL is used here: a figure of a stand-in would say nothing.

use std::time::Duration;

use anyhow::ensure;

use crate::harness::proxysql::{ADMIN, ProxySql, program};
use crate::harness::{Topology, until};
use crate::{PASSWORD, USER};

/// Where an administrator usually puts them.
const WRITER: u32 = 10;
const READER: u32 = 20;
/// Causeway's: the tier, and where one hostgroup per server begins.
const TIER: u32 = 21;
const HINTS: u32 = 9000;
/// Everything runs already when this is waited for.
const IN_FORCE_WITHIN: Duration = Duration::from_secs(30);

const NONE: &str = "no ProxySQL found: set PROXYSQL_BIN, or see integration/demo --help";

/// What the policies of `causeway verify` are here, in the order of the table.
pub(crate) const POLICIES: &str = "hostgroup:10,rules,hostgroup:21,causeway";
const LEGEND: &str = "\
through ProxySQL, on the same traffic:
  hostgroup:10  everything to the writer hostgroup
  rules         the usual split: `^SELECT` goes to the reader hostgroup 20
  hostgroup:21  reads go to the tier that Causeway keeps: replicas up to 500 ms behind
  causeway      each read asks Causeway, and carries the comment of the answer";

/// Fails, saying what to do, when there is no ProxySQL to run.
pub(crate) fn ensure_found() -> anyhow::Result<()> {
    let program = program().map_err(|why| anyhow::anyhow!("{NONE} ({why})"))?;
    ensure!(
        program.is_file(),
        "{} is no file: see PROXYSQL_BIN",
        program.display()
    );
    Ok(())
}

/// Starts it before these servers.
pub(crate) async fn start(topology: &Topology) -> anyhow::Result<ProxySql> {
    let mut rows = vec![(WRITER, topology.source())];
    rows.extend(topology.replicas().map(|replica| (READER, replica)));
    let proxy = ProxySql::start(&rows).await?;
    let user = format!(
        "INSERT INTO mysql_users (username, password, default_hostgroup) \
         VALUES ('{USER}', '{PASSWORD}', {WRITER})"
    );
    let monitor = format!(
        "INSERT INTO mysql_replication_hostgroups (writer_hostgroup, reader_hostgroup, \
         check_type, comment) VALUES ({WRITER}, {READER}, 'read_only', 'demo')"
    );
    let rule = format!(
        "INSERT INTO mysql_query_rules (rule_id, active, match_digest, destination_hostgroup, \
         apply) VALUES (1, 1, '^SELECT', {READER}, 1)"
    );
    let loads = ["USERS", "SERVERS", "QUERY RULES"];
    let loads = loads.map(|what| format!("LOAD MYSQL {what} TO RUNTIME"));
    let statements = [&user, &monitor, &rule].into_iter().chain(&loads);
    let statements: Vec<_> = statements.map(String::as_str).collect();
    proxy.admin_run(&statements).await?;
    Ok(proxy)
}

/// What Causeway's configuration says of it.
pub(crate) fn section(proxy: &ProxySql) -> String {
    let (user, password) = ADMIN;
    let address = proxy.admin_address();
    format!(
        "\n[proxysql]\nuser = {user:?}\npassword = {password:?}\n\
         instances = [ {{ name = \"px1\", address = {address:?} }} ]\n\n\
         [proxysql.hints]\nbase = {HINTS}\n\n\
         [[proxysql.tier]]\nhostgroup = {TIER}\nmax_staleness = \"500ms\"\ndwell = \"500ms\"\n"
    )
}

/// Waits until Causeway's hostgroups are there, and says what will be compared.
pub(crate) async fn wait_in_force(proxy: &ProxySql) -> anyhow::Result<()> {
    let query = format!(
        "SELECT COUNT(DISTINCT hostgroup_id) FROM runtime_mysql_servers \
         WHERE hostgroup_id IN ({TIER}, {})",
        HINTS + 1
    );
    until(
        "Causeway's hostgroups in ProxySQL",
        IN_FORCE_WITHIN,
        || async {
            let rows = proxy.admin_rows(&query).await?;
            let both = rows.concat() == [Some("2".to_owned())];
            Ok(both.then_some(()))
        },
    )
    .await?;
    eprintln!("{LEGEND}");
    Ok(())
}

/// What to do with it while it runs.
pub(crate) fn print_how_to(proxy: &ProxySql, causeway: &str) {
    let at = |address: String| address.replace("127.0.0.1:", "-h 127.0.0.1 -P ");
    let (admin, traffic) = (at(proxy.admin_address()), at(proxy.traffic_address()));
    let (user, password) = ADMIN;
    println!("  ProxySQL  traffic: mysql -u {USER} -p{PASSWORD} --comments {traffic}");
    println!("            admin:   mysql -u {user} -p{password} {admin}");
    println!("  SELECT hostgroup_id, port, status, weight, comment FROM runtime_mysql_servers");
    println!("  a read by hint: curl -s '{causeway}/v1/route?session=u42' answers with a comment;");
    println!("  then, through ProxySQL:");
    println!(
        "    /* hostgroup={} */ SELECT variable_value FROM \
         performance_schema.global_variables WHERE variable_name = 'port'",
        HINTS + 2
    );
}
