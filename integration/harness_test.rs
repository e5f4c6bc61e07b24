//! The harness itself: that its faults are real, that they heal, and that no
//! server outlives its test.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, ensure};

use mysql_async::{Conn, prelude::*};

use crate::harness::{MariaDb, Topology, TopologySpec, shared, until};

const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_write_reaches_every_replica() -> anyhow::Result<()> {
    let topology = shared().await;
    topology
        .source()
        .execute("CREATE TABLE app.t (id INT PRIMARY KEY)")
        .await?;
    let gtid = topology
        .source()
        .write("INSERT INTO app.t VALUES (7)")
        .await?;
    topology.wait_caught_up().await?;
    assert!(gtid.starts_with(&topology.source().uuid()), "{gtid}");
    for replica in topology.replicas() {
        assert_eq!(replica.value::<u32>("SELECT id FROM app.t").await?, 7);
    }
    Ok(())
}

#[tokio::test]
async fn a_stopped_applier_lags_alone_until_healed() -> anyhow::Result<()> {
    let topology = shared().await;
    topology.stop_applier(0).await?;
    topology
        .source()
        .execute("CREATE TABLE app.t (id INT PRIMARY KEY)")
        .await?;
    let set = topology.source().executed().await?;
    let (stopped, running) = (topology.replica(0), topology.replica(1));
    until("the other replica to apply", SOON, || async {
        Ok((running.executed().await? == set).then_some(()))
    })
    .await?;
    assert_ne!(stopped.executed().await?, set);
    topology.heal().await?;
    assert_eq!(stopped.executed().await?, set);
    Ok(())
}

#[tokio::test]
async fn healing_undoes_every_fault() -> anyhow::Result<()> {
    let topology = shared().await;
    let port = topology.replica(0).port;
    topology.set_source_delay(0, 3600).await?;
    topology.replica(1).kill().await?;
    topology
        .source()
        .execute("SET GLOBAL sync_binlog = 0, binlog_group_commit_sync_delay = 500")
        .await?;
    topology
        .source()
        .execute("CREATE TABLE app.t (id INT PRIMARY KEY)")
        .await?;
    topology.source().pause()?;
    topology.heal().await?;
    let source = topology.source();
    let settings = "SELECT @@GLOBAL.sync_binlog, @@GLOBAL.binlog_group_commit_sync_delay";
    assert_eq!(source.value::<(u32, u32)>(settings).await?, (1, 0));
    assert_eq!(topology.replica(0).port, port);
    for replica in topology.replicas() {
        assert_eq!(replica.executed().await?, source.executed().await?);
        assert!(
            replica
                .value::<bool>("SELECT @@GLOBAL.super_read_only")
                .await?
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_restart_keeps_the_data_and_a_rebuild_makes_another_server() -> anyhow::Result<()> {
    let topology = shared().await;
    topology
        .source()
        .execute("CREATE TABLE app.t (id INT PRIMARY KEY)")
        .await?;
    let replica = topology.replica(1);
    let uuid = replica.uuid();
    replica
        .restart_with(&["super_read_only=ON", "innodb_buffer_pool_size=64M"])
        .await?;
    assert_eq!(
        replica
            .value::<u64>("SELECT @@innodb_buffer_pool_size >> 20")
            .await?,
        64
    );
    assert_eq!(replica.uuid(), uuid);
    topology.rebuild(1).await?;
    assert_ne!(replica.uuid(), uuid);
    assert_eq!(
        replica.executed().await?,
        topology.source().executed().await?
    );
    Ok(())
}

#[tokio::test]
async fn a_reset_replica_can_follow_again() -> anyhow::Result<()> {
    let topology = shared().await;
    topology
        .source()
        .execute("CREATE TABLE app.t (id INT PRIMARY KEY)")
        .await?;
    topology.wait_caught_up().await?;
    topology.reset_and_resync(0).await?;
    topology
        .source()
        .execute("INSERT INTO app.t VALUES (1)")
        .await?;
    topology.wait_caught_up().await?;
    assert_eq!(
        topology
            .replica(0)
            .value::<u32>("SELECT id FROM app.t")
            .await?,
        1
    );
    Ok(())
}

#[tokio::test]
async fn a_promoted_replica_takes_writes_for_the_others() -> anyhow::Result<()> {
    let topology = Topology::start(TopologySpec::new(2)).await?;
    topology.source().kill().await?;
    topology.promote(0).await?;
    assert_eq!(topology.source().name(), "db2");
    topology
        .source()
        .execute("CREATE TABLE app.t (id INT PRIMARY KEY)")
        .await?;
    let (set, follower) = (topology.source().executed().await?, &topology.servers()[2]);
    until("the other replica to follow", SOON, || async {
        Ok((follower.executed().await? == set).then_some(()))
    })
    .await
}

#[tokio::test]
async fn a_dropped_topology_leaves_no_server_and_no_folder() -> anyhow::Result<()> {
    let topology = Topology::start(TopologySpec::new(1).option("max_connections=77")).await?;
    let connections: u32 = topology
        .replica(0)
        .value("SELECT @@max_connections")
        .await?;
    assert_eq!(connections, 77);
    let left: Vec<_> = topology
        .servers()
        .iter()
        .map(|server| (server.pid(), server.folder().to_owned()))
        .collect();
    drop(topology);
    for (pid, folder) in left {
        ensure!(!Path::new(&format!("/proc/{pid}")).exists(), "{pid} runs");
        ensure!(!folder.exists(), "{} exists", folder.display());
    }
    Ok(())
}

/// Set for the process that [`a_killed_test_leaves_no_server_and_no_folder`] kills.
const TO_BE_KILLED: &str = "CAUSEWAY_TEST_TO_BE_KILLED";

#[tokio::test]
async fn a_killed_test_leaves_no_server_and_no_folder() -> anyhow::Result<()> {
    if std::env::var_os(TO_BE_KILLED).is_some() {
        return hold_a_topology().await;
    }
    let mut other = Command::new(std::env::current_exe()?)
        .args(["a_killed_test_leaves", "--nocapture"])
        .env(TO_BE_KILLED, "yes")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let output = BufReader::new(other.stdout.take().context("stdout is piped")?);
    let (mut paths, mut lines) = (Vec::new(), output.lines());
    while paths.len() < 4 {
        let line = lines.next().context("the other process ended")??;
        paths.extend(line.strip_prefix("left: ").map(PathBuf::from));
    }
    assert!(paths.iter().all(|path| path.exists()), "{paths:?}");
    // SIGKILL: no destructor runs.
    other.kill()?;
    other.wait()?;
    let paths = &paths;
    until("servers and folders to go", SOON, || async move {
        Ok((!paths.iter().any(|path| path.exists())).then_some(()))
    })
    .await
}

/// Prints what would be left behind, and waits to be killed, but not for
/// longer than the test that kills it lives.
async fn hold_a_topology() -> anyhow::Result<()> {
    let topology = Topology::start(TopologySpec::new(1)).await?;
    // A stopped server has only its folder left, which must go too.
    topology.replica(0).stop().await?;
    topology.source().pause()?;
    for server in topology.servers() {
        println!("\nleft: {}", server.folder().display());
    }
    println!(
        "left: /proc/{}\nleft: {}",
        topology.source().pid(),
        topology.source().socket.display()
    );
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}

#[tokio::test]
async fn a_mariadb_answers_as_one() -> anyhow::Result<()> {
    let server = MariaDb::start().await?;
    let mut conn = Conn::new(server.opts("causeway", "causeway-pw")).await?;
    let version: Option<String> = conn.query_first("SELECT VERSION()").await?;
    assert!(version.is_some_and(|version| version.contains("MariaDB")));
    Ok(conn.disconnect().await?)
}
