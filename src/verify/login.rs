//! The MySQL login of the traffic, and connections made with it.

use std::time::Duration;

use anyhow::Context;
use mysql_async::{Conn, OptsBuilder};

use super::args::VerifyServer;

/// How long connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Set rather than asked for, so that connecting sends no query.
pub(super) const PACKET_MAX: usize = 16 * 1024 * 1024;
/// Seconds; as above.
const IDLE_MAX_S: usize = 28_800;

/// User and password.
#[derive(Clone)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: Option<String>,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The password stays out of logs.
        f.debug_struct("Login")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl Login {
    /// Connects within a deadline.
    pub(super) async fn connect(&self, server: &VerifyServer) -> Result<Conn, String> {
        let options = OptsBuilder::default()
            .ip_or_hostname(server.host.clone())
            .tcp_port(server.port)
            .user(Some(self.user.clone()))
            .pass(self.password.clone())
            .prefer_socket(false)
            .tcp_nodelay(true)
            .max_allowed_packet(Some(PACKET_MAX))
            .wait_timeout(Some(IDLE_MAX_S));
        match tokio::time::timeout(CONNECT_MAX, Conn::new(options)).await {
            Ok(Ok(conn)) => Ok(conn),
            Ok(Err(error)) => Err(label(&error)),
            Err(_) => Err("no connection in time".into()),
        }
    }

    /// Connects, with an error for a person.
    pub(super) async fn connect_or_explain(&self, server: &VerifyServer) -> anyhow::Result<Conn> {
        let connected = self.connect(server).await.map_err(anyhow::Error::msg);
        connected.with_context(|| {
            let VerifyServer { name, host, port } = server;
            format!(
                "cannot connect to {name} ({host}:{port}) as `{}`",
                self.user
            )
        })
    }
}

/// What went wrong, short enough to be counted by.
pub(super) fn label(error: &mysql_async::Error) -> String {
    match error {
        mysql_async::Error::Server(error) => {
            format!("MySQL error {} {}", error.code, error.message)
        }
        mysql_async::Error::Io(error) => format!("connection: {error}"),
        other => other.to_string(),
    }
}
