//! One MariaDB server, to see that Causeway calls it by its name.
//!
//! Its GTIDs are others than MySQL's, so it is never part of a topology.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use mysql_async::{Conn, Opts, OptsBuilder};

use super::{
    install::Install,
    place::{free_port, fresh_folder},
    settings,
    supervisor::Supervisor,
};

const START_WITHIN: Duration = Duration::from_secs(60);

/// The system tables are statements that MariaDB brings along; it reads these,
/// one statement a line, when it starts with `--bootstrap`.
const BEFORE: &str = "\
CREATE DATABASE mysql;
USE mysql;
SET @auth_root_socket=NULL;
SET @skip_auth_anonymous=1;
";
const SYSTEM_TABLES: [&str; 3] = [
    "mariadb_system_tables.sql",
    "mariadb_performance_tables.sql",
    "mariadb_system_tables_data.sql",
];
const USERS: &str = "\
FLUSH PRIVILEGES;
CREATE USER causeway IDENTIFIED BY 'causeway-pw';
GRANT REPLICATION CLIENT ON *.* TO causeway;
GRANT SELECT ON performance_schema.* TO causeway;
";

/// A running MariaDB with the user `causeway`. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct MariaDb {
    pub(crate) port: u16,
    pub(crate) version: String,
    supervisor: Supervisor,
    folder: PathBuf,
}

impl MariaDb {
    /// A new server, ready for connections.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let mut server = tokio::task::spawn_blocking(Self::prepare).await??;
        server.supervisor.start()?;
        let opts = server.opts("causeway", "causeway-pw");
        let starting = tokio::time::timeout(START_WITHIN, async {
            loop {
                ensure!(server.supervisor.is_alive()?, "MariaDB died at its start");
                if let Ok(conn) = Conn::new(opts.clone()).await {
                    return Ok(conn);
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        let started = starting.await.context("MariaDB does not answer")?;
        started.with_context(|| server.log())?.disconnect().await?;
        Ok(server)
    }

    /// Options for a TCP connection as this user.
    pub(crate) fn opts(&self, user: &str, password: &str) -> Opts {
        OptsBuilder::default()
            .ip_or_hostname("127.0.0.1")
            .tcp_port(self.port)
            .prefer_socket(false)
            .user(Some(user))
            .pass(Some(password))
            .into()
    }

    /// `host:port`, as Causeway's configuration wants it.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn prepare() -> anyhow::Result<Self> {
        let install = Install::find_mariadb()?;
        let folder = fresh_folder()?;
        let port = free_port()?;
        fs::write(
            folder.path().join("my.cnf"),
            option_file(&install, folder.path(), port),
        )?;
        let mut words = install.command_line();
        words.push(format!("--defaults-file={}", folder.path().join("my.cnf").display()).into());
        words.extend(settings::run_as(folder.path())?.map(Into::into));
        let supervisor = Supervisor::new(folder.path(), &words)?;
        let folder = folder.keep();
        bootstrap(&install, &folder)?;
        Ok(Self {
            port,
            version: install.version,
            supervisor,
            folder,
        })
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("error.log")).unwrap_or_default()
    }
}

fn option_file(install: &Install, folder: &Path, port: u16) -> String {
    let mut text = format!(
        "[mysqld]\nport={port}\nbind_address=127.0.0.1\nserver_id=1\nlog_bin=binlog\n\
         innodb_buffer_pool_size=32M\ninnodb_log_file_size=16M\nskip_name_resolve=ON\n"
    );
    let files = ["data", "mysqld.sock", "mysqld.pid", "error.log"].map(|file| folder.join(file));
    let own = ["datadir", "socket", "pid_file", "log_error"]
        .into_iter()
        .zip(files);
    for (name, path) in own.chain(install.own_files()) {
        let _ = writeln!(text, "{name}={}", path.display());
    }
    text
}

fn bootstrap(install: &Install, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir(folder.join("data"))?;
    let share = install
        .share()
        .context("MariaDB's system tables are missing")?;
    let mut statements = BEFORE.to_owned();
    for file in SYSTEM_TABLES {
        statements += &fs::read_to_string(share.join(file)).context(file)?;
    }
    statements += USERS;
    let script = folder.join("bootstrap.sql");
    fs::write(&script, statements)?;
    let output = install
        .command()
        .arg(format!(
            "--defaults-file={}",
            folder.join("my.cnf").display()
        ))
        .args(settings::run_as(folder)?)
        .arg("--bootstrap")
        .stdin(fs::File::open(&script)?)
        .output()?;
    let log = || fs::read_to_string(folder.join("error.log")).unwrap_or_default();
    ensure!(
        output.status.success(),
        "MariaDB does not initialise:\n{}",
        log()
    );
    Ok(())
}
