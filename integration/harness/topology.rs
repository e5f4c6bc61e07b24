//! One source and its replicas.
//!
//! The servers are named db1 (the source), db2, db3, … and replicate by GTID
//! with automatic positions, as [`super::settings`] says.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use tokio::task::JoinSet;

use super::server::{Server, ServerSpec};

/// How long replicas may need to catch up before something must be wrong.
pub(crate) const CAUGHT_UP_WITHIN: Duration = Duration::from_secs(30);

/// What a topology is made from.
#[derive(Clone, Debug)]
pub(crate) struct TopologySpec {
    replicas: usize,
    common: Vec<String>,
    own: Vec<(usize, String)>,
}

impl TopologySpec {
    /// One source and this many replicas.
    pub(crate) fn new(replicas: usize) -> Self {
        Self {
            replicas,
            common: Vec::new(),
            own: Vec::new(),
        }
    }

    /// Adds an option to every server.
    pub(crate) fn option(mut self, option: &str) -> Self {
        self.common.push(option.to_owned());
        self
    }

    /// Adds an option to one server: 0 is the source, 1 the first replica.
    pub(crate) fn option_of(mut self, server: usize, option: &str) -> Self {
        self.own.push((server, option.to_owned()));
        self
    }

    fn server(&self, index: usize) -> ServerSpec {
        let mut options = self.common.clone();
        if index > 0 {
            options.push("super_read_only=ON".to_owned());
        }
        let own = self.own.iter().filter(|(server, _)| *server == index);
        options.extend(own.map(|(_, option)| option.clone()));
        let id = u32::try_from(index).expect("a handful of servers") + 1;
        ServerSpec {
            name: format!("db{id}"),
            id,
            options,
        }
    }
}

/// A source and its replicas, replicating. They end when this is dropped.
#[derive(Debug)]
pub(crate) struct Topology {
    servers: Vec<Server>,
    /// Which server is the source now.
    source: AtomicUsize,
}

impl Topology {
    /// Starts all servers at once; replicas have caught up when this returns.
    pub(crate) async fn start(spec: TopologySpec) -> anyhow::Result<Self> {
        let mut starting = JoinSet::new();
        for index in 0..=spec.replicas {
            starting.spawn(Server::start(spec.server(index)));
        }
        let mut servers = Vec::new();
        while let Some(server) = starting.join_next().await {
            servers.push(server??);
        }
        servers.sort_by_key(|server| server.spec.id);
        let topology = Self {
            servers,
            source: AtomicUsize::new(0),
        };
        for index in 0..spec.replicas {
            topology.follow(topology.replica(index)).await?;
        }
        topology.wait_caught_up().await?;
        Ok(topology)
    }

    /// The server that takes writes.
    pub(crate) fn source(&self) -> &Server {
        &self.servers[self.source_index()]
    }

    /// The replicas in order, from 0.
    pub(crate) fn replica(&self, index: usize) -> &Server {
        self.replicas()
            .nth(index)
            .expect("the test knows its topology")
    }

    /// Every server but the source, in order.
    pub(crate) fn replicas(&self) -> impl Iterator<Item = &Server> {
        let source = self.source().spec.id;
        self.servers
            .iter()
            .filter(move |server| server.spec.id != source)
    }

    /// Every server; the order never changes.
    pub(crate) fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Whether the source is the one that the topology started with.
    pub(crate) fn has_first_source(&self) -> bool {
        self.source_index() == 0
    }

    /// The replica goes on receiving, but applies nothing more.
    pub(crate) async fn stop_applier(&self, replica: usize) -> anyhow::Result<()> {
        self.replica(replica)
            .execute("STOP REPLICA SQL_THREAD")
            .await
    }

    /// Undoes [`Self::stop_applier`].
    pub(crate) async fn start_applier(&self, replica: usize) -> anyhow::Result<()> {
        self.replica(replica)
            .execute("START REPLICA SQL_THREAD")
            .await
    }

    /// The replica receives nothing more, but applies what it has.
    pub(crate) async fn stop_receiver(&self, replica: usize) -> anyhow::Result<()> {
        self.replica(replica)
            .execute("STOP REPLICA IO_THREAD")
            .await
    }

    /// Undoes [`Self::stop_receiver`].
    pub(crate) async fn start_receiver(&self, replica: usize) -> anyhow::Result<()> {
        self.replica(replica)
            .execute("START REPLICA IO_THREAD")
            .await
    }

    /// From now on the replica applies each transaction this long after its commit.
    pub(crate) async fn set_source_delay(&self, replica: usize, secs: u32) -> anyhow::Result<()> {
        let delay = format!("CHANGE REPLICATION SOURCE TO SOURCE_DELAY = {secs}");
        let statements = [
            "STOP REPLICA SQL_THREAD",
            &delay,
            "START REPLICA SQL_THREAD",
        ];
        self.replica(replica).execute_all(&statements).await
    }

    /// Waits until every replica shows all that the source has executed by now.
    pub(crate) async fn wait_caught_up(&self) -> anyhow::Result<()> {
        let set = self.source().executed().await?;
        for replica in self.replicas() {
            wait_for(replica, &set).await?;
        }
        Ok(())
    }

    /// Empties the replica's executed set and binary logs, as an administrator
    /// who rebuilds it does, and leaves replication stopped.
    pub(crate) async fn reset_executed(&self, replica: usize) -> anyhow::Result<()> {
        let statements = [
            "STOP REPLICA",
            "RESET REPLICA",
            "RESET BINARY LOGS AND GTIDS",
        ];
        self.replica(replica).execute_all(&statements).await
    }

    /// [`Self::reset_executed`], then tells the replica that it has what it had
    /// before, and lets it follow again. Its data must be the source's.
    pub(crate) async fn reset_and_resync(&self, replica: usize) -> anyhow::Result<()> {
        let had = self.replica(replica).executed().await?;
        self.reset_executed(replica).await?;
        let purged = format!("SET GLOBAL gtid_purged = '{had}'");
        self.replica(replica)
            .execute_all(&[&purged, "START REPLICA"])
            .await?;
        self.wait_caught_up().await
    }

    /// Replaces the replica by an empty one with a new `server_uuid`, on the
    /// same port, which then replays all that the source ever wrote.
    pub(crate) async fn rebuild(&self, replica: usize) -> anyhow::Result<()> {
        self.replica(replica).restart_empty().await?;
        self.follow(self.replica(replica)).await?;
        self.wait_caught_up().await
    }

    /// Makes the replica the source, which the other running replicas follow.
    /// The old source is left as it is: kill it first for a failover.
    pub(crate) async fn promote(&self, replica: usize) -> anyhow::Result<()> {
        let chosen = self.replica(replica).spec.id;
        let old = self.source().spec.id;
        let index = self
            .servers
            .iter()
            .position(|server| server.spec.id == chosen);
        self.source
            .store(index.context("a replica is a server")?, Ordering::Relaxed);
        let open = [
            "STOP REPLICA",
            "RESET REPLICA ALL",
            "SET GLOBAL read_only = OFF",
        ];
        self.source().execute_all(&open).await?;
        for replica in self.replicas().filter(|replica| replica.spec.id != old) {
            self.follow(replica).await?;
        }
        Ok(())
    }

    /// Makes the server replicate from the present source.
    pub(crate) async fn follow(&self, replica: &Server) -> anyhow::Result<()> {
        let change = format!(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={}, \
             SOURCE_USER='repl', SOURCE_PASSWORD='repl-pw', GET_SOURCE_PUBLIC_KEY=1, \
             SOURCE_AUTO_POSITION=1, SOURCE_CONNECT_RETRY=1, SOURCE_RETRY_COUNT=100000, \
             SOURCE_HEARTBEAT_PERIOD=1",
            self.source().port
        );
        replica
            .execute_all(&["STOP REPLICA", &change, "START REPLICA"])
            .await
    }

    fn source_index(&self) -> usize {
        self.source.load(Ordering::Relaxed)
    }
}

impl Drop for Topology {
    fn drop(&mut self) {
        // All at once; each server's own drop then waits for its end.
        for server in &self.servers {
            server.close();
        }
    }
}

async fn wait_for(replica: &Server, set: &str) -> anyhow::Result<()> {
    let secs = CAUGHT_UP_WITHIN.as_secs();
    let sql = format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{set}', {secs})");
    let asked = tokio::time::timeout(CAUGHT_UP_WITHIN * 2, replica.value::<u8>(&sql));
    let timed_out = asked
        .await
        .with_context(|| format!("{replica} does not answer"))??;
    if timed_out != 0 {
        let executed = replica.executed().await?;
        let log = replica.log_tail();
        ensure!(
            false,
            "{replica} has {executed} and not {set} after {secs} s:\n{log}"
        );
    }
    Ok(())
}
