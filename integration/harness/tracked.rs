//! A connection that learns the GTID of what it commits, as an application does.
//!
//! It is of the blocking driver, because the asynchronous one does not ask the
//! server for session tracking (`CLIENT_SESSION_TRACK`).

use anyhow::Context as _;
use mysql::{
    OptsBuilder, consts::CapabilityFlags, prelude::Queryable as _,
    session_state_change::SessionStateChange,
};

use super::server::Server;

/// A blocking connection as root. It may move between runtimes and threads.
#[derive(Debug)]
pub(crate) struct Tracked(mysql::Conn);

impl Tracked {
    /// Connects through the server's Unix socket.
    pub(crate) fn connect(server: &Server) -> anyhow::Result<Self> {
        Self::open(server.socket.display().to_string())
    }

    /// Connects to a port of 127.0.0.1, a server's or a proxy's, as root.
    pub(crate) fn connect_to(port: u16) -> anyhow::Result<Self> {
        let opts = OptsBuilder::new()
            .ip_or_hostname(Some("127.0.0.1"))
            .tcp_port(port)
            .prefer_socket(false)
            // Else it asks, and a proxy keeps the server that answered.
            .max_allowed_packet(Some(1 << 24))
            .user(Some("root"));
        Self::open_with(opts)
    }

    fn open(socket: String) -> anyhow::Result<Self> {
        let opts = OptsBuilder::new().socket(Some(socket)).user(Some("root"));
        Self::open_with(opts)
    }

    fn open_with(opts: OptsBuilder) -> anyhow::Result<Self> {
        let opts = opts.additional_capabilities(CapabilityFlags::CLIENT_SESSION_TRACK);
        let mut conn = mysql::Conn::new(opts)?;
        conn.query_drop("SET SESSION session_track_gtids = OWN_GTID")?;
        Ok(Self(conn))
    }

    /// Runs one statement; the answer is the GTID that the server's OK carried.
    pub(crate) fn write(&mut self, sql: &str) -> anyhow::Result<String> {
        self.0.query_drop(sql).with_context(|| sql.to_owned())?;
        for change in self.0.session_state_changes()? {
            if let SessionStateChange::Gtids(set) = change.decode()? {
                return gtid_text(set.as_bytes());
            }
        }
        anyhow::bail!("it committed nothing: {sql}")
    }
}

/// The set in a tracker's payload. The driver leaves on its front a byte that
/// names the encoding, and the length as the protocol writes it.
fn gtid_text(payload: &[u8]) -> anyhow::Result<String> {
    let length_bytes = match payload.get(1).context("no length")? {
        0xfc => 3,
        0xfd => 4,
        0xfe => 9,
        _ => 1,
    };
    let text = payload.get(1 + length_bytes..).context("no set")?;
    Ok(std::str::from_utf8(text)?.replace('\n', ""))
}

impl Server {
    /// Runs one statement as root; the answer is the GTID that it committed.
    pub(crate) async fn write(&self, sql: &str) -> anyhow::Result<String> {
        let (socket, sql) = (self.socket.display().to_string(), sql.to_owned());
        let gtid = tokio::task::spawn_blocking(move || Tracked::open(socket)?.write(&sql)).await?;
        gtid.with_context(|| self.to_string())
    }
}
