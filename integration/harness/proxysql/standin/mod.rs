//! A small server that stands in for ProxySQL 2.7.1 where there is none.
//!
//! It speaks the MySQL protocol on an admin port and a traffic port, and keeps
//! what was measured of the real one: the admin's tables and statements
//! ([`state`], [`store`]), the monitor ([`monitor`]), where a query goes
//! ([`rules`], [`session`]) and the GTID feeds ([`feed`], [`feed_set`]).
//! `proxysql_harness.rs` holds it against the real one.
//!
//! What it does **not** do:
//! - The admin knows `LOAD`, `SAVE`, `SET` and what SQLite runs: no `SHOW`, no
//!   `PROXYSQL …`, no tables but those of [`schema`], and of the variables only
//!   those that have an effect here or are read by a controller.
//! - No cluster: `proxysql_servers` is only kept. Group Replication's hostgroups
//!   likewise: the monitor knows read_only and lag, no pings, no connects.
//! - No backend is shunned by itself for its errors; a refused one is passed
//!   over by the query that met it. A backend that hangs, hangs its session.
//! - A row that goes (OFFLINE_HARD, removed, lag) does not end what it is doing;
//!   what ProxySQL would end and run again elsewhere finishes here.
//! - No connection pool: backends belong to their client's session, and
//!   `max_connections` and `max_latency_ms` are only kept.
//! - No TLS, compression, caching, mirroring, rewriting, `COM_CHANGE_USER`,
//!   `COM_STMT_SEND_LONG_DATA`, packets from 16 MiB.
//! - Of a query rule's conditions it knows flagIN, username, match_digest and
//!   match_pattern; of its effects destination_hostgroup, gtid_from_hostgroup,
//!   flagOUT and apply.
//! - None of 2.7.1's three ways to die: it neither deadlocks at LOAD, nor ends
//!   at a long feed line (it says so and drops the feed), nor misreads `min_gtid`.
//! - In 2.7.1 a session whose first query in a hostgroup ended at a gate stays
//!   shut out by later gates there until an ungated query has been through.
//!   Here each gate is asked anew.
//! - Lag is read with `SHOW REPLICA STATUS`; 2.7.1 knows `SHOW SLAVE STATUS` only,
//!   which MySQL 8.4 and later refuse, so that it sees no lag there.

mod admin;
mod backend;
mod choose;
mod command;
mod feed;
mod feed_set;
mod hosts;
mod monitor;
mod rules;
mod schema;
mod session;
mod state;
mod store;
mod wire;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Notify,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{state::State, store::Answer, wire::SqlError};

/// A running stand-in. It ends when this is dropped, or its runtime.
#[derive(Debug)]
pub(super) struct StandIn {
    file: PathBuf,
    ports: [u16; 2],
    shared: Arc<Shared>,
}

/// What all its tasks share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Told after each LOAD of servers.
    loaded: Notify,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl StandIn {
    /// Starts on fresh ports, with what an earlier one saved in this folder.
    pub(super) async fn start(folder: &Path) -> anyhow::Result<Self> {
        Self::start_on(folder.join("proxysql.db"), [0, 0]).await
    }

    /// Ends it and starts it on the same ports, with what it had saved.
    pub(super) async fn restart(&mut self) -> anyhow::Result<()> {
        self.stop().await;
        *self = Self::start_on(self.file.clone(), self.ports).await?;
        Ok(())
    }

    /// Ends every connection and task.
    pub(super) async fn stop(&self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }

    pub(super) fn admin_port(&self) -> u16 {
        self.ports[0]
    }

    pub(super) fn traffic_port(&self) -> u16 {
        self.ports[1]
    }

    async fn start_on(file: PathBuf, ports: [u16; 2]) -> anyhow::Result<Self> {
        let state = State::open(&file).map_err(|error| anyhow::anyhow!(error.text))?;
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            loaded: Notify::new(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        let listen = async |port| TcpListener::bind(("127.0.0.1", port)).await;
        let admin = listen(ports[0]).await.context("the admin's port")?;
        let traffic = listen(ports[1]).await.context("the traffic's port")?;
        let ports = [admin.local_addr()?.port(), traffic.local_addr()?.port()];
        shared.spawn(accept(Arc::clone(&shared), admin, admin::serve));
        shared.spawn(accept(Arc::clone(&shared), traffic, session::serve));
        shared.spawn(monitor::watch_read_only(Arc::clone(&shared)));
        shared.spawn(monitor::watch_lag(Arc::clone(&shared)));
        shared.spawn(feed::keep_feeds(Arc::clone(&shared)));
        Ok(Self {
            file,
            ports,
            shared,
        })
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

impl Shared {
    /// A task that ends with the stand-in.
    fn spawn<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(stop.run_until_cancelled_owned(task));
    }

    fn execute(&self, sql: &str) -> Result<Answer, SqlError> {
        let answer = self.state.lock().execute(sql);
        if sql
            .trim_start()
            .get(..4)
            .is_some_and(|verb| verb.eq_ignore_ascii_case("LOAD"))
        {
            self.loaded.notify_one();
        }
        answer
    }

    fn millis(&self, variable: &str) -> Duration {
        self.state.lock().millis(variable)
    }
}

/// Serves each client in a task of its own. A client that fails is only dropped.
async fn accept<Served>(
    shared: Arc<Shared>,
    listener: TcpListener,
    serve: impl Fn(Arc<Shared>, TcpStream) -> Served,
) where
    Served: Future<Output = std::io::Result<()>> + Send + 'static,
{
    while let Ok((stream, _)) = listener.accept().await {
        shared.spawn(serve(Arc::clone(&shared), stream));
    }
}
