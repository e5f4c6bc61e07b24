//! One session's writes, on a thread of their own.
//!
//! The GTID of a write is in the OK packet of its statement, which only the
//! blocking driver can ask for. So each session has a thread that owns its
//! connection to the source and does one write at a time.

use std::sync::mpsc;
use std::time::Duration;

use anyhow::Context;
use mysql::consts::CapabilityFlags;
use mysql::prelude::Queryable;
use mysql_common::packets::session_state_change::SessionStateChange;
use tokio::sync::oneshot;

use super::args::VerifyServer;
use super::login::{Login, PACKET_MAX};
use super::tracked_gtid::parse_tracked_gtid;
use crate::clock;

/// How long one step of a write may take on the socket.
const STEP_MAX: Duration = Duration::from_secs(5);
/// How long a whole write may take, connecting included.
const WRITE_MAX: Duration = Duration::from_secs(12);
/// The thread calls one driver, shallowly.
const STACK_BYTES: usize = 512 * 1024;

/// A write to do: a statement, on the server that is the source now.
#[derive(Debug)]
struct Job {
    source: VerifyServer,
    statement: String,
    reply: oneshot::Sender<Result<Acknowledged, WriteError>>,
}

/// A write that the source acknowledged.
#[derive(Debug)]
pub(super) struct Acknowledged {
    /// Its GTID; `None` when the server did not send one.
    pub(super) gtid: Option<String>,
    /// From sending the statement to its OK.
    pub(super) took: Duration,
}

/// A write whose outcome is unknown, with a label for the report.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(super) struct WriteError(pub(super) String);

/// The handle of a session's writing thread, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
}

impl Writer {
    pub(super) fn start(login: Login, name: &str) -> anyhow::Result<Self> {
        let (jobs, queue) = mpsc::channel();
        std::thread::Builder::new()
            .name(name.into())
            .stack_size(STACK_BYTES)
            .spawn(move || serve(&login, &queue))
            .context("cannot start a thread for the writes")?;
        Ok(Self { jobs })
    }

    /// Does one write. An error leaves open whether it happened.
    pub(super) async fn write(
        &self,
        source: &VerifyServer,
        statement: String,
    ) -> Result<Acknowledged, WriteError> {
        let (reply, answer) = oneshot::channel();
        let source = source.clone();
        let job = Job {
            source,
            statement,
            reply,
        };
        let gone = || WriteError("write: its thread is gone".into());
        self.jobs.send(job).map_err(|_| gone())?;
        match tokio::time::timeout(WRITE_MAX, answer).await {
            Ok(answer) => answer.map_err(|_| gone())?,
            Err(_) => Err(WriteError("write: no answer in time".into())),
        }
    }
}

/// The thread: one connection, opened when needed, dropped after any error.
fn serve(login: &Login, queue: &mpsc::Receiver<Job>) {
    let mut open: Option<(VerifyServer, mysql::Conn)> = None;
    while let Ok(job) = queue.recv() {
        // A connection to a server that is no longer the source is closed.
        let same = open.take().filter(|(server, _)| *server == job.source);
        let connected = match same {
            Some((_, conn)) => Ok(conn),
            None => connect(login, &job.source),
        };
        let result = connected.and_then(|mut conn| {
            let acknowledged = execute(&mut conn, &job.statement)?;
            open = Some((job.source, conn));
            Ok(acknowledged)
        });
        let result = result.map_err(|error| WriteError(format!("write: {}", label(&error))));
        // Nobody waits any more for an answer that came too late.
        drop(job.reply.send(result));
    }
}

fn connect(login: &Login, source: &VerifyServer) -> Result<mysql::Conn, mysql::Error> {
    let options = mysql::OptsBuilder::new()
        .ip_or_hostname(Some(source.host.clone()))
        .tcp_port(source.port)
        .user(Some(login.user.clone()))
        .pass(login.password.clone())
        .prefer_socket(false)
        // Asking the server for it would make ProxySQL keep the connection.
        .max_allowed_packet(Some(PACKET_MAX))
        .tcp_connect_timeout(Some(STEP_MAX))
        .read_timeout(Some(STEP_MAX))
        .write_timeout(Some(STEP_MAX))
        .additional_capabilities(CapabilityFlags::CLIENT_SESSION_TRACK);
    let mut conn = mysql::Conn::new(options)?;
    conn.query_drop("SET SESSION session_track_gtids = OWN_GTID")?;
    Ok(conn)
}

fn execute(conn: &mut mysql::Conn, statement: &str) -> Result<Acknowledged, mysql::Error> {
    let start = clock::now();
    conn.query_drop(statement)?;
    let took = clock::now().since(start);
    if conn.affected_rows() == 0 {
        let gone = std::io::Error::other("no row changed: was the table or the row lost?");
        return Err(gone.into());
    }
    let gtid = tracked(conn);
    Ok(Acknowledged { gtid, took })
}

/// The GTID in the last OK packet.
fn tracked(conn: &mysql::Conn) -> Option<String> {
    let changes = conn.session_state_changes().ok()?;
    changes
        .iter()
        .find_map(|change| match change.decode().ok()? {
            SessionStateChange::Gtids(gtids) => parse_tracked_gtid(gtids.as_bytes()),
            _ => None,
        })
}

fn label(error: &mysql::Error) -> String {
    match error {
        mysql::Error::MySqlError(error) => format!("MySQL error {} {}", error.code, error.message),
        mysql::Error::IoError(error) => format!("connection: {error}"),
        other => other.to_string(),
    }
}
