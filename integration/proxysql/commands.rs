//! `causeway proxysql plan` and `apply`, and a Causeway that is killed.

use std::process::Output;

use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use tokio::process::Command;

use super::{BASE, TIER, WHO, hints, loads, online, proxy, section, tier, until_online};
use crate::harness::{Topology, shared};
use crate::support::config_text;

struct File(tempfile::TempDir);

impl File {
    fn new(text: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("causeway.toml"), text)?;
        Ok(Self(folder))
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("causeway.toml")
    }

    async fn proxysql(&self, what: &str, format: &str) -> anyhow::Result<Output> {
        let output = Command::new(env!("CARGO_BIN_EXE_causeway"))
            .args(["proxysql", what, "--format", format, "--config"])
            .arg(self.path())
            .output();
        Ok(output.await?)
    }
}

fn file(topology: &Topology, proxysql: &str) -> anyhow::Result<File> {
    File::new(&(config_text(topology, "causeway-pw") + proxysql))
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_shows_the_difference_and_apply_makes_it_so_once() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = proxy(&topology).await?;
    let file = file(&topology, &section(&[&proxy], &(hints() + &tier(TIER, ""))))?;
    let before = loads(&proxy).await?;

    let plan = file.proxysql("plan", "table").await?;
    let text = String::from_utf8(plan.stdout)?;
    assert_eq!(plan.status.code(), Some(1), "{text}");
    assert!(
        text.contains("hostgroup 9002") && text.contains("LOAD MYSQL SERVERS"),
        "{text}"
    );
    assert_eq!(loads(&proxy).await?, before, "a plan changes nothing");

    let json: serde_json::Value =
        serde_json::from_slice(&file.proxysql("plan", "json").await?.stdout)?;
    assert_eq!(
        json[0]["plan"]["changes"].as_array().map(Vec::len),
        Some(7),
        "{json}"
    );

    let apply = file.proxysql("apply", "json").await?;
    let text = String::from_utf8(apply.stdout)?;
    assert_eq!(apply.status.code(), Some(0), "{text}");
    assert_eq!(loads(&proxy).await?, before + 1, "one LOAD for all");
    assert_eq!(online(&proxy, TIER).await?.len(), 2);

    let again = file.proxysql("apply", "table").await?;
    assert_eq!(again.status.code(), Some(0));
    assert_eq!(
        loads(&proxy).await?,
        before + 1,
        "none without a difference"
    );
    let plan = file.proxysql("plan", "table").await?;
    assert_eq!(plan.status.code(), Some(0));
    proxy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_without_a_section_or_an_instance_says_so() -> anyhow::Result<()> {
    let topology = shared().await;
    let none = file(&topology, "")?.proxysql("plan", "table").await?;
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8(none.stderr)?.contains("no [proxysql] section"));

    let proxy = proxy(&topology).await?;
    let config = section(&[&proxy], &hints());
    proxy.stop().await?;
    let dead = file(&topology, &config)?.proxysql("plan", "table").await?;
    assert_eq!(dead.status.code(), Some(1));
    assert!(String::from_utf8(dead.stdout)?.contains("unreachable"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_causeway_leaves_a_configuration_that_works() -> anyhow::Result<()> {
    let topology = shared().await;
    let proxy = proxy(&topology).await?;
    let file = file(&topology, &section(&[&proxy], &(hints() + &tier(TIER, ""))))?;
    let mut causeway = Command::new(env!("CARGO_BIN_EXE_causeway"))
        .args(["serve", "--config"])
        .arg(file.path())
        .kill_on_drop(true)
        .spawn()?;
    let (one, two) = (topology.replica(0), topology.replica(1));
    until_online(&proxy, TIER, &[one, two]).await?;
    until_online(&proxy, BASE + 2, &[one, topology.source()]).await?;
    causeway.kill().await?;

    let mut conn = Conn::new(proxy.traffic_opts("root")).await?;
    for hostgroup in [TIER, BASE + 1, BASE + 2, BASE + 3] {
        let answer: Option<String> = conn
            .query_first(format!("/* hostgroup={hostgroup} */ {WHO}"))
            .await?;
        assert!(answer.is_some(), "hostgroup {hostgroup}");
    }
    conn.disconnect().await?;
    // The guard that ProxySQL itself keeps from now on.
    let guards = format!(
        "SELECT DISTINCT max_replication_lag FROM runtime_mysql_servers WHERE hostgroup_id={TIER}"
    );
    assert_eq!(proxy.admin_rows(&guards).await?, [[Some("60".to_owned())]]);
    proxy.stop().await
}
