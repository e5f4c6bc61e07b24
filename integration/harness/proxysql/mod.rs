//! ProxySQL for the tests: the real one where it is found, else a stand-in.
//!
//! The same tests run against either. `PROXYSQL_BIN` names the real binary, else
//! it is looked for on `PATH`; `CAUSEWAY_PROXYSQL=standin` forces the stand-in.
//! A test that ran against the stand-in says so in its output.

mod admin;
mod real;
mod standin;

use std::path::PathBuf;

use mysql_async::{Opts, OptsBuilder};
use tempfile::TempDir;

use self::{
    real::{Real, SettingsFile},
    standin::StandIn,
};
use super::{place::fresh_folder, server::Server};

pub(crate) use self::admin::Admin;

/// The admin's user and password.
pub(crate) const ADMIN: (&str, &str) = ("admin", "admin");

/// The users that may send traffic, with their passwords; both exist in every
/// server of the harness. `root` may do anything, `app` all on the schema `app`.
pub(crate) const USERS: [(&str, &str); 2] = [("root", ""), ("app", "app-pw")];

/// What every ProxySQL of the tests starts with: the monitor's login and pace,
/// and session tracking, without which no GTID is ever seen.
const SETTINGS: [(&str, &str); 5] = [
    ("mysql-monitor_username", "causeway"),
    ("mysql-monitor_password", "causeway-pw"),
    ("mysql-monitor_read_only_interval", "200"),
    ("mysql-binlog_reader_connect_retry_msec", "1000"),
    ("mysql-default_session_track_gtids", "OWN_GTID"),
];

/// Which of the two it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Real,
    StandIn,
}

/// A running ProxySQL. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct ProxySql {
    running: Running,
    // The stand-in's; the real one's folder is its supervisor's to remove.
    _folder: Option<TempDir>,
}

#[derive(Debug)]
enum Running {
    Real(Real),
    StandIn(StandIn),
}

impl ProxySql {
    /// Starts one with these servers in these hostgroups, the users of [`USERS`]
    /// with the first row's hostgroup as their default, and all of it saved to
    /// disk, as an administrator leaves it.
    pub(crate) async fn start(rows: &[(u32, &Server)]) -> anyhow::Result<Self> {
        let proxy = Self::start_empty().await?;
        let mut admin = proxy.admin().await?;
        for (hostgroup, server) in rows {
            let sql = "INSERT INTO mysql_servers (hostgroup_id, hostname, port) VALUES";
            admin
                .run(&format!(
                    "{sql} ({hostgroup}, '127.0.0.1', {})",
                    server.port
                ))
                .await?;
        }
        let default = rows.first().map_or(0, |(hostgroup, _)| *hostgroup);
        for (user, password) in USERS {
            let sql = "INSERT INTO mysql_users (username, password, default_hostgroup) VALUES";
            admin
                .run(&format!("{sql} ('{user}', '{password}', {default})"))
                .await?;
        }
        for (name, value) in SETTINGS {
            admin.run(&format!("SET {name} = '{value}'")).await?;
        }
        for module in ["SERVERS", "USERS", "VARIABLES"] {
            admin
                .run(&format!("LOAD MYSQL {module} TO RUNTIME"))
                .await?;
            admin.run(&format!("SAVE MYSQL {module} TO DISK")).await?;
        }
        admin.close().await?;
        Ok(proxy)
    }

    /// Starts one as it is out of the box: no server, no user.
    pub(crate) async fn start_empty() -> anyhow::Result<Self> {
        let why = match program() {
            Ok(program) => {
                let running = Running::Real(Real::start(&program).await?);
                return Ok(Self {
                    running,
                    _folder: None,
                });
            }
            Err(why) => why,
        };
        eprintln!("proxysql: stand-in ({why})");
        let folder = fresh_folder()?;
        let running = Running::StandIn(StandIn::start(folder.path()).await?);
        Ok(Self {
            running,
            _folder: Some(folder),
        })
    }

    /// Starts a real one with a settings file of its own, whose admin login must be
    /// [`ADMIN`]; `None` when there is only the stand-in.
    pub(crate) async fn start_with(file: SettingsFile<'_>) -> anyhow::Result<Option<Self>> {
        let Ok(program) = program() else {
            return Ok(None);
        };
        Ok(Some(Self {
            running: Running::Real(Real::start_with(&program, file).await?),
            _folder: None,
        }))
    }

    pub(crate) fn kind(&self) -> Kind {
        match &self.running {
            Running::Real(_) => Kind::Real,
            Running::StandIn(_) => Kind::StandIn,
        }
    }

    /// A connection to the admin.
    pub(crate) async fn admin(&self) -> anyhow::Result<Admin> {
        Admin::connect(self.admin_port()).await
    }

    /// Runs statements on the admin in order, each as a query of its own.
    pub(crate) async fn admin_run(&self, statements: &[&str]) -> anyhow::Result<()> {
        let mut admin = self.admin().await?;
        for sql in statements {
            admin.run(sql).await?;
        }
        admin.close().await
    }

    /// The rows of a query on the admin.
    pub(crate) async fn admin_rows(&self, sql: &str) -> anyhow::Result<Vec<admin::Cells>> {
        let mut admin = self.admin().await?;
        let rows = admin.rows(sql).await?;
        admin.close().await?;
        Ok(rows)
    }

    /// `host:port` of the admin.
    pub(crate) fn admin_address(&self) -> String {
        format!("127.0.0.1:{}", self.admin_port())
    }

    /// The port of 127.0.0.1 for traffic.
    pub(crate) fn traffic_port(&self) -> u16 {
        match &self.running {
            Running::Real(real) => real.traffic_port(),
            Running::StandIn(standin) => standin.traffic_port(),
        }
    }

    /// `host:port` for traffic.
    pub(crate) fn traffic_address(&self) -> String {
        format!("127.0.0.1:{}", self.traffic_port())
    }

    /// Options for a connection through the proxy as one of [`USERS`].
    ///
    /// The driver asks nothing at its login: that query would hold a server.
    pub(crate) fn traffic_opts(&self, user: &str) -> Opts {
        let known = USERS.iter().find(|(name, _)| *name == user);
        let (_, password) = known.expect("a user of the harness");
        plain_opts(self.traffic_port(), user, password).into()
    }

    /// Ends it and starts it again on the same ports with what was saved to disk.
    pub(crate) async fn restart(&mut self) -> anyhow::Result<()> {
        match &mut self.running {
            Running::Real(real) => real.restart().await,
            Running::StandIn(standin) => standin.restart().await,
        }
    }

    /// Ends it, and returns when it has ended.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        match &self.running {
            Running::Real(real) => real.stop().await,
            Running::StandIn(standin) => {
                standin.stop().await;
                Ok(())
            }
        }
    }

    /// The end of the real one's log; the stand-in has none.
    pub(crate) fn log_tail(&self) -> String {
        match &self.running {
            Running::Real(real) => real.log_tail(),
            Running::StandIn(_) => String::new(),
        }
    }

    fn admin_port(&self) -> u16 {
        match &self.running {
            Running::Real(real) => real.admin_port(),
            Running::StandIn(standin) => standin.admin_port(),
        }
    }
}

/// Options with which the driver sends nothing but the login.
fn plain_opts(port: u16, user: &str, password: &str) -> OptsBuilder {
    OptsBuilder::default()
        .ip_or_hostname("127.0.0.1")
        .tcp_port(port)
        .prefer_socket(false)
        .max_allowed_packet(Some(1 << 24))
        .wait_timeout(Some(28_800))
        .user(Some(user))
        .pass(Some(password))
}

/// The real binary, or why there is none.
pub(crate) fn program() -> Result<PathBuf, &'static str> {
    if std::env::var("CAUSEWAY_PROXYSQL").is_ok_and(|choice| choice == "standin") {
        return Err("CAUSEWAY_PROXYSQL asks for it");
    }
    if let Some(program) = std::env::var_os("PROXYSQL_BIN").filter(|path| !path.is_empty()) {
        return Ok(program.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join("proxysql"))
        .find(|program| program.is_file())
        .ok_or("no PROXYSQL_BIN, none on PATH")
}
