//! A connection to ProxySQL's admin interface.
//!
//! It speaks MySQL's protocol, and only just: one statement per query, the text
//! protocol, no `SELECT @@…` that it does not know. So nothing is asked at
//! connect time, and every value is read as text.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, DriverError, Error, OptsBuilder, Row, Value};

use crate::fleet::split_address;

/// Largest answer accepted.
const PACKET_MAX: usize = 64 << 20;
/// Deadline of connecting, and of every statement. A LOAD of a thousand rows
/// under load took 155 ms at the worst when measured.
const DEADLINE: Duration = Duration::from_secs(5);
/// ProxySQL's error for a wrong login and for a statement it does not know.
const ERROR_1045: u16 = 1045;
/// Its error for the user `admin` from another host: "can only connect locally".
const ERROR_1040: u16 = 1040;

/// How to log in to one instance.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminLogin {
    /// The name used in logs and metrics.
    pub name: String,
    /// `host:port` of the admin interface.
    pub address: String,
    /// A user of `admin-admin_credentials`.
    pub user: String,
    /// Its password.
    pub password: String,
}

impl std::fmt::Debug for AdminLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminLogin")
            .field("name", &self.name)
            .field("address", &self.address)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// Why an instance could not be looked at or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// Nobody answers.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// User or password is wrong.
    #[error("access denied: {0}")]
    AccessDenied(String),
    /// No answer in time.
    #[error("no answer within {} s", DEADLINE.as_secs())]
    Timeout,
    /// What answers is not ProxySQL's admin interface.
    #[error("not a ProxySQL admin interface: {0}")]
    NotProxySql(String),
    /// A version whose tables are not known.
    #[error("ProxySQL {0} is older than 2.0.9")]
    TooOld(super::version::Version),
    /// A statement was refused.
    #[error("{statement}: {message}")]
    Refused {
        /// The statement.
        statement: String,
        /// ProxySQL's words.
        message: String,
    },
    /// An answer was not understood.
    #[error("{0}")]
    Unreadable(String),
}

impl AdminError {
    /// The name used in metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::AccessDenied(_) => "access_denied",
            Self::Timeout => "timeout",
            Self::NotProxySql(_) => "not_proxysql",
            Self::TooOld(_) => "too_old",
            Self::Refused { .. } => "refused",
            Self::Unreadable(_) => "unreadable",
        }
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Admin(Conn);

impl Admin {
    pub(crate) async fn connect(login: &AdminLogin) -> Result<Self, AdminError> {
        let (host, port) = split_address(&login.address).ok_or_else(|| {
            AdminError::Unreachable(format!("{} is not host:port", login.address))
        })?;
        let opts = OptsBuilder::default()
            .ip_or_hostname(host)
            .tcp_port(port)
            .user(Some(&login.user))
            .pass(Some(&login.password))
            .tcp_nodelay(true)
            .prefer_socket(false)
            .max_allowed_packet(Some(PACKET_MAX))
            .wait_timeout(Some(28_800));
        let opened = within(async { Conn::new(opts).await.map_err(|error| at_login(&error)) });
        opened.await.map(Self)
    }

    /// Runs one statement that gives no rows.
    pub(crate) async fn run(&mut self, statement: &str) -> Result<(), AdminError> {
        within(async {
            self.0
                .query_drop(statement)
                .await
                .map_err(|error| refused(statement, &error))
        })
        .await
    }

    /// The rows of a query, every value as text.
    pub(crate) async fn rows(&mut self, query: &str) -> Result<Vec<TextRow>, AdminError> {
        let rows: Vec<Row> = within(async {
            self.0
                .query(query)
                .await
                .map_err(|error| refused(query, &error))
        })
        .await?;
        Ok(rows.into_iter().map(TextRow::of).collect())
    }

    pub(crate) async fn close(self) {
        // The peer may be gone: there is nobody left to tell.
        within(async {
            self.0
                .disconnect()
                .await
                .map_err(|error| refused("quit", &error))
        })
        .await
        .unwrap_or_default();
    }
}

/// A row whose values are text or NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextRow(pub(crate) Vec<Option<String>>);

impl TextRow {
    fn of(row: Row) -> Self {
        let text = |value: Value| match value {
            Value::NULL => None,
            Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            other => Some(other.as_sql(true)),
        };
        Self(row.unwrap().into_iter().map(text).collect())
    }

    /// A value that must be there.
    pub(crate) fn text(&self, at: usize) -> Result<&str, AdminError> {
        let value = self.0.get(at).and_then(Option::as_deref);
        value.ok_or_else(|| AdminError::Unreadable(format!("column {at} of {self:?} is NULL")))
    }

    /// A number that must be there.
    pub(crate) fn number<T: std::str::FromStr>(&self, at: usize) -> Result<T, AdminError> {
        let text = self.text(at)?;
        text.trim()
            .parse()
            .map_err(|_| AdminError::Unreadable(format!("{text:?} is not a number that fits")))
    }
}

async fn within<T>(question: impl Future<Output = Result<T, AdminError>>) -> Result<T, AdminError> {
    tokio::time::timeout(DEADLINE, question)
        .await
        .unwrap_or(Err(AdminError::Timeout))
}

fn at_login(error: &Error) -> AdminError {
    match error {
        Error::Server(server) if server.code == ERROR_1045 => {
            AdminError::AccessDenied(server.message.clone())
        }
        Error::Server(server) if server.code == ERROR_1040 && server.message.contains("local") => {
            AdminError::AccessDenied(server.message.clone())
        }
        Error::Server(server) => AdminError::NotProxySql(server.message.clone()),
        Error::Io(error) => AdminError::Unreachable(error.to_string()),
        Error::Driver(DriverError::ConnectionClosed) => {
            AdminError::Unreachable("the connection was closed".to_owned())
        }
        other => AdminError::NotProxySql(other.to_string()),
    }
}

fn refused(statement: &str, error: &Error) -> AdminError {
    match error {
        Error::Server(server) => AdminError::Refused {
            statement: statement.to_owned(),
            message: server.message.clone(),
        },
        Error::Io(error) => AdminError::Unreachable(error.to_string()),
        Error::Driver(DriverError::ConnectionClosed) => {
            AdminError::Unreachable("the connection was closed".to_owned())
        }
        other => AdminError::Unreadable(format!("{statement}: {other}")),
    }
}
