//! Connecting to a server, and naming what is wrong with it.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, DriverError, Error, Opts, OptsBuilder, SslOpts};

use crate::fleet::{Fault, Identity, Version, split_address};
use crate::gtid::Uuid;

/// The oldest server that Causeway works with.
const VERSION_MIN: Version = Version::new(8, 0, 0);
/// Largest answer accepted: an executed set with very many gaps.
const PACKET_MAX: usize = 64 << 20;
/// Asked for at connect time instead of letting the driver query it.
const WAIT_TIMEOUT_S: usize = 28_800;

/// Whether connections are encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tls {
    /// Never.
    Disabled,
    /// When the server offers it; certificates are not checked.
    #[default]
    Preferred,
    /// Always; certificates are not checked.
    Required,
    /// Always, with the server's certificate and name checked.
    Verify,
}

/// A user on every server.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The user name.
    pub user: String,
    /// The password.
    pub password: String,
    /// Encryption.
    pub tls: Tls,
    /// A PEM file with the authority that signed the servers' certificates, for
    /// [`Tls::Verify`].
    pub tls_ca: Option<std::path::PathBuf>,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login")
            .field("user", &self.user)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

/// Connects and learns who answers, all within `deadline`.
pub(crate) async fn connect(
    address: &str,
    login: &Login,
    deadline: Duration,
) -> Result<(Conn, Identity), Fault> {
    within(deadline, async {
        let mut conn = open(address, login).await?;
        let identity = identify(&mut conn).await?;
        Ok((conn, identity))
    })
    .await
}

/// Runs `question` with a deadline.
pub(crate) async fn within<T>(
    deadline: Duration,
    question: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let timed_out = || Fault::Timeout(u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX));
    tokio::time::timeout(deadline, question)
        .await
        .unwrap_or_else(|_| Err(timed_out()))
}

async fn open(address: &str, login: &Login) -> Result<Conn, Fault> {
    let opened = Conn::new(opts(address, login, login.tls != Tls::Disabled)?).await;
    match opened {
        Err(Error::Driver(DriverError::NoClientSslFlagFromServer))
            if login.tls == Tls::Preferred =>
        {
            Conn::new(opts(address, login, false)?)
                .await
                .map_err(|error| fault(&error))
        }
        opened => opened.map_err(|error| fault(&error)),
    }
}

fn opts(address: &str, login: &Login, encrypted: bool) -> Result<Opts, Fault> {
    let (host, port) = split_address(address)
        .ok_or_else(|| Fault::Unreachable(format!("{address} is not host:port")))?;
    let mut opts = OptsBuilder::default()
        .ip_or_hostname(host)
        .tcp_port(port)
        .user(Some(&login.user))
        .pass(Some(&login.password))
        .tcp_nodelay(true)
        .prefer_socket(false)
        // Given here so that connecting sends no query of its own.
        .max_allowed_packet(Some(PACKET_MAX))
        .wait_timeout(Some(WAIT_TIMEOUT_S));
    if encrypted {
        opts = opts.ssl_opts(ssl(login));
    }
    Ok(opts.into())
}

fn ssl(login: &Login) -> SslOpts {
    match login.tls {
        Tls::Verify => {
            let roots = login
                .tls_ca
                .iter()
                .map(|path| path.clone().into())
                .collect();
            SslOpts::default().with_root_certs(roots)
        }
        _ => SslOpts::default().with_danger_accept_invalid_certs(true),
    }
}

async fn identify(conn: &mut Conn) -> Result<Identity, Fault> {
    let text: Option<(String, String)> = conn
        .query_first("SELECT VERSION(), @@version_comment")
        .await
        .map_err(|error| fault(&error))?;
    let (text, comment) =
        text.ok_or_else(|| Fault::Unreadable("SELECT VERSION() gave no row".into()))?;
    if text.contains("MariaDB") || comment.contains("MariaDB") {
        return Err(Fault::NotMySql(format!("MariaDB ({text})")));
    }
    let version =
        Version::parse(&text).ok_or_else(|| Fault::Unreadable(format!("version {text:?}")))?;
    if version < VERSION_MIN {
        return Err(Fault::TooOld(version));
    }
    let row: Option<(String, String)> = conn
        .query_first("SELECT @@GLOBAL.server_uuid, @@GLOBAL.gtid_mode")
        .await
        .map_err(|error| fault(&error))?;
    let (uuid, gtid_mode) = row.ok_or_else(|| Fault::Unreadable("no server_uuid".into()))?;
    if gtid_mode != "ON" {
        return Err(Fault::GtidModeOff(gtid_mode));
    }
    let uuid: Uuid = uuid
        .parse()
        .map_err(|_| Fault::Unreadable(format!("server_uuid {uuid:?}")))?;
    Ok(Identity { uuid, version })
}

/// Error numbers of the server (`mysqld_error.h`) that have a name here.
mod code {
    pub(super) const ACCESS_DENIED: u16 = 1045;
    pub(super) const ACCESS_DENIED_NO_PASSWORD: u16 = 1698;
    pub(super) const DB_ACCESS_DENIED: u16 = 1044;
    pub(super) const HOST_NOT_PRIVILEGED: u16 = 1130;
    pub(super) const TABLE_ACCESS_DENIED: u16 = 1142;
    pub(super) const COLUMN_ACCESS_DENIED: u16 = 1143;
    pub(super) const SPECIFIC_ACCESS_DENIED: u16 = 1227;
}

/// The named cause of a driver error.
pub(crate) fn fault(error: &Error) -> Fault {
    match error {
        Error::Server(server) => match server.code {
            code::ACCESS_DENIED
            | code::ACCESS_DENIED_NO_PASSWORD
            | code::HOST_NOT_PRIVILEGED
            | code::DB_ACCESS_DENIED => Fault::AccessDenied(server.message.clone()),
            code::TABLE_ACCESS_DENIED
            | code::COLUMN_ACCESS_DENIED
            | code::SPECIFIC_ACCESS_DENIED => Fault::MissingPrivilege(server.message.clone()),
            code => Fault::Server(format!("{code}: {}", server.message)),
        },
        Error::Io(error) => Fault::Unreachable(error.to_string()),
        Error::Driver(DriverError::ConnectionClosed) => {
            Fault::Unreachable("the server closed the connection".into())
        }
        other => Fault::Unreadable(other.to_string()),
    }
}
