//! `causeway init` and `causeway check` beside a ProxySQL, and what they say of
//! it: that what they name is so.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use mysql_async::{Conn, prelude::*};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::harness::{Kind, ProxySql, Topology, shared, until};

const CAUSEWAY: &str = env!("CARGO_BIN_EXE_causeway");
const SOON: Duration = Duration::from_secs(20);

/// Says which server answers, without a variable, which would hold the server.
const WHO: &str = "SELECT variable_value FROM performance_schema.global_variables \
                   WHERE variable_name = 'port'";

/// A ProxySQL with the source in 10 and the replicas in 20, as a pair.
async fn paired(topology: &Topology) -> anyhow::Result<ProxySql> {
    let mut rows = vec![(10, topology.source())];
    rows.extend(topology.replicas().map(|replica| (20, replica)));
    let proxy = ProxySql::start(&rows).await?;
    // What the monitor would also put into the reader hostgroup.
    let alone = "SET mysql-monitor_writer_is_also_reader = 'false'";
    let pair = "INSERT INTO mysql_replication_hostgroups (writer_hostgroup, reader_hostgroup) \
                VALUES (10, 20)";
    proxy
        .admin_run(&[
            alone,
            "LOAD MYSQL VARIABLES TO RUNTIME",
            pair,
            "LOAD MYSQL SERVERS TO RUNTIME",
        ])
        .await?;
    Ok(proxy)
}

async fn causeway(args: &[&str]) -> anyhow::Result<Output> {
    let output = Command::new(CAUSEWAY)
        .args(args)
        .env("CAUSEWAY_MYSQL_PASSWORD", "causeway-pw")
        .env("CAUSEWAY_PROXYSQL_PASSWORD", "admin")
        .output();
    Ok(output.await?)
}

async fn init(proxy: &ProxySql, folder: &Path) -> anyhow::Result<String> {
    let file = folder.join("causeway.toml").display().to_string();
    let address = proxy.admin_address();
    let made = causeway(&["init", "--from-proxysql", &address, "--output", &file]).await?;
    anyhow::ensure!(made.status.success(), "{}", said(&made));
    Ok(file)
}

/// The findings of ProxySQL that are not good, as `level text`.
async fn found(file: &str) -> anyhow::Result<Vec<String>> {
    let output = causeway(&["check", "--config", file, "--format", "json"]).await?;
    let report: Value = serde_json::from_slice(&output.stdout).with_context(|| said(&output))?;
    let passed = report["passed"].as_bool().context("a verdict")?;
    assert_eq!(output.status.code(), Some(i32::from(!passed)));
    let findings = report["findings"].as_array().context("findings")?;
    let of = |finding: &&Value| finding["subject"] == "proxysql1" && finding["level"] != "good";
    let line = |finding: &Value| {
        let word = |key: &str| finding[key].as_str().unwrap_or_default().to_owned();
        format!("{} {}", word("level"), word("text"))
    };
    Ok(findings.iter().filter(of).map(line).collect())
}

fn said(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

async fn who(conn: &mut Conn, comment: &str) -> anyhow::Result<u16> {
    let port: Option<u16> = conn.query_first(format!("{comment} {WHO}")).await?;
    port.context("a server has a port")
}

#[tokio::test]
async fn init_makes_a_configuration_that_check_has_nothing_against() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = paired(&topology).await?;
    let folder = tempfile::tempdir()?;
    let file = init(&proxy, folder.path()).await?;
    let text = std::fs::read_to_string(&file)?;
    let first = format!(
        "{{ name = \"db1\", address = \"{}\" }},  # in",
        topology.source().address()
    );
    assert!(text.contains(&first), "{text}");
    assert!(
        text.contains("# hostgroup = 20") && !text.contains("causeway-pw"),
        "{text}"
    );
    assert_eq!(found(&file).await?, [""; 0]);
    // An existing file is kept.
    let address = proxy.admin_address();
    let again = causeway(&["init", "--from-proxysql", &address, "--output", &file]).await?;
    assert_eq!(again.status.code(), Some(2));
    assert!(said(&again).contains("File exists"), "{}", said(&again));
    Ok(())
}

#[tokio::test]
async fn check_names_what_is_wrong_with_a_proxysql() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = paired(&topology).await?;
    let folder = tempfile::tempdir()?;
    let file = init(&proxy, folder.path()).await?;
    let replica = topology.replica(0).port;
    let breaks: [(&str, &str, &str); 8] = [
        (
            "SET mysql-query_digests = 'false'",
            "VARIABLES",
            "error mysql-query_digests",
        ),
        (
            "UPDATE mysql_users SET transaction_persistent = 0 WHERE username = 'app'",
            "USERS",
            "warning transaction_persistent is 0 for 'app'",
        ),
        (
            "UPDATE mysql_users SET fast_forward = 1 WHERE username = 'root'",
            "USERS",
            "warning fast_forward is 1 for 'root'",
        ),
        (
            "INSERT INTO mysql_query_rules (rule_id, active, match_pattern, cache_ttl) VALUES (3, 1, 'x', 700)",
            "QUERY RULES",
            "warning rule 3 answers from ProxySQL's cache for 700 ms",
        ),
        (
            "INSERT INTO mysql_query_rules (rule_id, active, match_pattern) VALUES (4, 1, '^SELECT x')",
            "QUERY RULES",
            "warning rule 4 matches",
        ),
        (
            "INSERT INTO mysql_query_rules (rule_id, active, match_digest, destination_hostgroup) VALUES (5, 1, 'x', 9001)",
            "QUERY RULES",
            "error hostgroup 9001, meant for hints to db1, is in use by rule 5",
        ),
        (
            "INSERT INTO mysql_servers (hostgroup_id, hostname, port) VALUES (20, 'elsewhere', 3306)",
            "SERVERS",
            "warning hostgroup 20 elsewhere:3306 is not in mysql.servers",
        ),
        (
            "INSERT INTO mysql_servers (hostgroup_id, hostname, port) VALUES (30, 'later', 3306)",
            "",
            "warning changes are prepared in mysql_servers and not loaded (hostgroup 30 later:3306",
        ),
    ];
    let mut expected = Vec::new();
    for (statement, module, finding) in breaks {
        let load = format!("LOAD MYSQL {module} TO RUNTIME");
        let statements = [statement, &load];
        let needed = if module.is_empty() { 1 } else { 2 };
        proxy.admin_run(&statements[..needed]).await?;
        expected.push(finding);
        let found = found(&file).await?;
        for finding in &expected {
            assert!(
                found.iter().any(|found| found.starts_with(finding)),
                "{finding}: {found:#?}"
            );
        }
        assert_eq!(found.len(), expected.len(), "{found:#?}");
    }
    let gate = "INSERT INTO mysql_query_rules (rule_id, active, match_digest, \
                destination_hostgroup, gtid_from_hostgroup) VALUES (6, 1, '^SELECT', 20, 10)";
    proxy
        .admin_run(&[gate, "LOAD MYSQL QUERY RULES TO RUNTIME"])
        .await?;
    let found = found(&file).await?;
    for finding in [
        "error queries are gated by GTID (rules [6]",
        &format!("error hostgroup 20 127.0.0.1:{replica} has no gtid_port"),
        "warning a driver that begins with SELECT @@",
    ] {
        assert!(
            found.iter().any(|found| found.starts_with(finding)),
            "{finding}: {found:#?}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn an_admin_that_does_not_answer_as_one_is_named() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = paired(&topology).await?;
    let folder = tempfile::tempdir()?;
    let file = init(&proxy, folder.path()).await?;
    let text = std::fs::read_to_string(&file)?;
    let admin = proxy.admin_address();
    let instances = text.find("instances").context("instances")?;
    let pointed_to = |address: &str| {
        let (servers, rest) = text.split_at(instances);
        servers.to_owned() + &rest.replace(&admin, address)
    };
    // Nobody listens there any more.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let nobody = nobody.to_string();
    for (text, finding) in [
        (pointed_to(&nobody), "error unreachable"),
        (pointed_to(&proxy.traffic_address()), "error access denied"),
        (
            text.replace("user = \"admin\"", "user = \"nobody\""),
            "error access denied",
        ),
    ] {
        std::fs::write(&file, &text)?;
        let found = found(&file).await?;
        assert!(
            matches!(&found[..], [one] if one.starts_with(finding)),
            "{finding}: {found:#?}"
        );
    }
    Ok(())
}

/// `serve` with nothing but ProxySQL's address.
#[tokio::test]
async fn serve_runs_with_what_proxysql_knows() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = paired(&topology).await?;
    let mut command = Command::new(CAUSEWAY);
    command
        .args(["serve", "--from-proxysql", &proxy.admin_address()])
        .args(["--listen", "127.0.0.1:0", "--log-format", "json"])
        .env_remove("CAUSEWAY_MYSQL_PASSWORD")
        .env_remove("CAUSEWAY_PROXYSQL_PASSWORD")
        .env_remove("CAUSEWAY_LOG");
    let mut child = command.stderr(Stdio::piped()).kill_on_drop(true).spawn()?;
    let mut log = BufReader::new(child.stderr.take().context("it is piped")?).lines();
    let url = loop {
        let line = log
            .next_line()
            .await?
            .context("it listens before it ends")?;
        let entry: Value = serde_json::from_str(&line)?;
        if let Some(address) = entry["fields"]["address"].as_str() {
            break format!("http://{address}");
        }
    };
    tokio::spawn(async move { while let Ok(Some(_)) = log.next_line().await {} });
    until("every server to be usable", SOON, || async {
        let lag = causeway(&["lag", "--url", &url]).await?;
        Ok(lag.status.success().then_some(()))
    })
    .await?;
    until("the hint hostgroups to be made", SOON, || async {
        let sql = "SELECT COUNT(*) FROM runtime_mysql_servers WHERE weight = 10000000 AND \
                   hostgroup_id BETWEEN 9001 AND 9003";
        let rows = proxy.admin_rows(sql).await?;
        Ok((rows[0][0].as_deref() == Some("3")).then_some(()))
    })
    .await?;
    // Learnt again, the numbers are the same.
    let folder = tempfile::tempdir()?;
    let text = std::fs::read_to_string(init(&proxy, folder.path()).await?)?;
    assert!(text.contains("base = 9000"), "{text}");
    Ok(())
}

/// What `check` says of `fast_forward`, of the cache, and of anchored patterns.
#[tokio::test]
async fn what_check_says_of_rules_and_users_is_so() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = paired(&topology).await?;
    if proxy.kind() == Kind::StandIn {
        eprintln!("skipped: the stand-in has neither a cache nor fast_forward");
        return Ok(());
    }
    let (source, replica) = (topology.source(), topology.replica(0));
    let hint = format!(
        "INSERT INTO mysql_servers (hostgroup_id, hostname, port) VALUES (30, '127.0.0.1', {})",
        replica.port
    );
    proxy
        .admin_run(&[
            &hint,
            "LOAD MYSQL SERVERS TO RUNTIME",
            "INSERT INTO mysql_query_rules (rule_id, active, match_pattern, error_msg) VALUES (1, 1, '^SELECT 11', 'no')",
            "INSERT INTO mysql_query_rules (rule_id, active, match_digest, cache_ttl) VALUES (2, 1, 'app.t', 60000)",
            "LOAD MYSQL QUERY RULES TO RUNTIME",
        ])
        .await?;
    let mut conn = Conn::new(proxy.traffic_opts("root")).await?;
    assert_eq!(who(&mut conn, "/* hostgroup=30 */").await?, replica.port);
    assert!(conn.query_drop("SELECT 11").await.is_err());
    conn.query_drop("/* hostgroup=30 */ SELECT 11").await?;
    source
        .execute_all(&[
            "CREATE TABLE app.t (id INT PRIMARY KEY)",
            "INSERT INTO app.t VALUES (1)",
        ])
        .await?;
    let count = "/* hostgroup=10 */ SELECT COUNT(*) FROM app.t";
    assert_eq!(conn.query_first::<u32, _>(count).await?, Some(1));
    source.execute("INSERT INTO app.t VALUES (2)").await?;
    assert_eq!(
        conn.query_first::<u32, _>(count).await?,
        Some(1),
        "from the cache"
    );
    proxy
        .admin_run(&[
            "UPDATE mysql_users SET fast_forward = 1",
            "LOAD MYSQL USERS TO RUNTIME",
        ])
        .await?;
    let mut fast = Conn::new(proxy.traffic_opts("root")).await?;
    assert_eq!(who(&mut fast, "/* hostgroup=30 */").await?, source.port);
    Ok(())
}

/// What `check` says of drivers that begin with `SELECT @@…`, and that its
/// statement mends it. Without a feed, a gated query fails.
#[tokio::test]
async fn what_check_says_of_first_questions_is_so() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = paired(&topology).await?;
    if proxy.kind() == Kind::StandIn {
        eprintln!("skipped: the stand-in is told nothing by SELECT @@");
        return Ok(());
    }
    let gate = "INSERT INTO mysql_query_rules (rule_id, active, match_digest, \
                destination_hostgroup, gtid_from_hostgroup, apply) VALUES (6, 1, '^SELECT', 20, 10, 1)";
    proxy
        .admin_run(&[
            gate,
            "LOAD MYSQL QUERY RULES TO RUNTIME",
            "SET mysql-connect_timeout_server_max = 500",
            "LOAD MYSQL VARIABLES TO RUNTIME",
        ])
        .await?;
    topology
        .source()
        .execute("CREATE TABLE app.t (id INT PRIMARY KEY)")
        .await?;
    topology.wait_caught_up().await?;
    read_after_write(&proxy, 1)
        .await?
        .context("it is not gated")?;
    let folder = tempfile::tempdir()?;
    let file = init(&proxy, folder.path()).await?;
    let mend = mend(&file, "a driver that begins with SELECT @@").await?;
    for statement in mend.split_terminator(';') {
        proxy.admin_run(&[statement.trim()]).await?;
    }
    assert_eq!(
        read_after_write(&proxy, 2).await?,
        None,
        "it is gated, and has no feed"
    );
    Ok(())
}

/// What a driver does: its question, a write, a read. `None` is error 9001.
async fn read_after_write(proxy: &ProxySql, id: u32) -> anyhow::Result<Option<u32>> {
    let mut conn = Conn::new(proxy.traffic_opts("root")).await?;
    conn.query_drop("SELECT @@max_allowed_packet").await?;
    conn.query_drop(format!("INSERT INTO app.t VALUES ({id})"))
        .await?;
    match conn
        .query_first::<u32, _>("SELECT COUNT(*) FROM app.t")
        .await
    {
        Ok(count) => Ok(count),
        Err(mysql_async::Error::Server(error)) if error.code == 9001 => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn mend(file: &str, text: &str) -> anyhow::Result<String> {
    let output = causeway(&["check", "--config", file, "--format", "json"]).await?;
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let findings = report["findings"].as_array().context("findings")?;
    let of = |finding: &&Value| {
        finding["text"]
            .as_str()
            .is_some_and(|found| found.contains(text))
    };
    let finding = findings.iter().find(of).with_context(|| text.to_owned())?;
    Ok(finding["mend"].as_str().context("a statement")?.to_owned())
}
