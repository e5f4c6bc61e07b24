//! One MySQL server: started, stopped, killed, paused, asked.
//!
//! No connection is kept: a `Server` outlives the runtime of the test that uses
//! it, and a connection cannot.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use mysql_async::{Conn, Opts, OptsBuilder};

use super::{
    ask::Variables,
    install::Install,
    place::{free_port, fresh_folder},
    poll::until,
    settings::{self, Own},
    supervisor::Supervisor,
    template,
};

const START_WITHIN: Duration = Duration::from_secs(60);
const ASK_WITHIN: Duration = Duration::from_secs(5);
const END_WITHIN: Duration = Duration::from_secs(60);
/// How often another port is tried when the one picked was taken meanwhile.
const PORT_TRIES: usize = 4;

/// What a server is made from.
#[derive(Clone, Debug)]
pub(crate) struct ServerSpec {
    pub(crate) name: String,
    /// The `server_id`, different for each server of a topology.
    pub(crate) id: u32,
    /// Lines of the option file; leading dashes are allowed.
    pub(crate) options: Vec<String>,
}

/// A server of its own, on a port of 127.0.0.1. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) spec: ServerSpec,
    pub(crate) port: u16,
    pub(crate) socket: PathBuf,
    folder: PathBuf,
    install: Install,
    life: Mutex<Life>,
}

/// What changes while a server exists.
#[derive(Debug)]
struct Life {
    supervisor: Supervisor,
    /// The options of the latest start.
    options: Vec<String>,
    uuid: String,
    pid: u32,
    /// Every global variable as it was after the latest start.
    variables: Variables,
}

impl Server {
    /// A new server with a fresh data directory, ready for connections.
    pub(crate) async fn start(spec: ServerSpec) -> anyhow::Result<Self> {
        let mut failure = None;
        for _ in 0..PORT_TRIES {
            let spec = spec.clone();
            let server = tokio::task::spawn_blocking(move || Self::prepare(spec)).await??;
            match server.run(0).await {
                Ok(()) => return Ok(server),
                Err(error) if server.port_was_taken() => failure = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(failure.context("no port was tried")?)
    }

    // The supervisor comes first: it is what removes the folder.
    fn prepare(spec: ServerSpec) -> anyhow::Result<Self> {
        let install = Install::find()?;
        let folder = fresh_folder()?;
        let mut words = install.command_line();
        words.push(format!("--defaults-file={}", folder.path().join("my.cnf").display()).into());
        words.extend(settings::run_as(folder.path())?.map(Into::into));
        let supervisor = Supervisor::new(folder.path(), &words)?;
        let folder = folder.keep();
        template::copy_to(&install, &folder.join("data"))?;
        let life = Life {
            supervisor,
            options: spec.options.clone(),
            uuid: String::new(),
            pid: 0,
            variables: Variables::new(),
        };
        Ok(Self {
            spec,
            port: free_port()?,
            socket: folder.join("mysqld.sock"),
            folder,
            install,
            life: Mutex::new(life),
        })
    }

    async fn run(&self, port_patience: u32) -> anyhow::Result<()> {
        let options = self.options();
        let own = Own {
            id: self.spec.id,
            port: self.port,
            port_patience,
            options: &options,
        };
        let text = settings::option_file(&self.install, &self.folder, &own);
        std::fs::write(self.folder.join("my.cnf"), text)?;
        let pid = self.life().supervisor.start()?;
        self.life().pid = pid;
        until(
            &format!("{self} to accept connections"),
            START_WITHIN,
            || async {
                ensure!(
                    self.is_alive()?,
                    "{self} died at its start:\n{}",
                    self.log_tail()
                );
                Ok(self.conn().await.ok())
            },
        )
        .await?
        .disconnect()
        .await?;
        self.remember().await
    }

    async fn remember(&self) -> anyhow::Result<()> {
        let uuid = self.value("SELECT @@server_uuid").await?;
        let variables = self.variables().await?;
        let mut life = self.life();
        (life.uuid, life.variables) = (uuid, variables);
        Ok(())
    }

    /// Ends the server as an administrator does, and waits until it has ended.
    pub(crate) async fn stop(&self) -> anyhow::Result<()> {
        self.resume()?;
        // One that does not run, or does not answer, has only the signal.
        let _ = tokio::time::timeout(ASK_WITHIN, self.shut_down()).await;
        self.life().supervisor.signal("TERM")?;
        self.ended().await
    }

    /// Ends the server as a crash does (`kill -9`), and waits until it has ended.
    pub(crate) async fn kill(&self) -> anyhow::Result<()> {
        self.life().supervisor.signal("KILL")?;
        self.ended().await
    }

    /// Freezes the server: it answers nobody and closes nothing.
    pub(crate) fn pause(&self) -> anyhow::Result<()> {
        ensure!(
            self.life().supervisor.signal("STOP")?,
            "{self} does not run"
        );
        Ok(())
    }

    /// Undoes [`Self::pause`]; does nothing otherwise.
    pub(crate) fn resume(&self) -> anyhow::Result<()> {
        self.life().supervisor.signal("CONT")?;
        Ok(())
    }

    /// Stops the server if it runs, and starts it with the same options on the same port.
    pub(crate) async fn restart(&self) -> anyhow::Result<()> {
        self.stop().await?;
        // Someone's outgoing connection may hold the port for a moment.
        self.run(30).await
    }

    /// [`Self::restart`], with these options in place of the specification's.
    pub(crate) async fn restart_with(&self, options: &[&str]) -> anyhow::Result<()> {
        self.life().options = options.iter().map(ToString::to_string).collect();
        self.restart().await
    }

    /// Starts over with an empty data directory and a new `server_uuid`.
    pub(crate) async fn restart_empty(&self) -> anyhow::Result<()> {
        self.kill().await?;
        let (install, data) = (self.install.clone(), self.folder.join("data"));
        tokio::task::spawn_blocking(move || {
            std::fs::remove_dir_all(&data)?;
            template::copy_to(&install, &data)
        })
        .await??;
        self.run(30).await
    }

    async fn ended(&self) -> anyhow::Result<()> {
        until(&format!("{self} to end"), END_WITHIN, || async {
            Ok((!self.is_alive()?).then_some(()))
        })
        .await
    }

    /// Whether the process exists; a paused one does.
    pub(crate) fn is_alive(&self) -> anyhow::Result<bool> {
        self.life().supervisor.is_alive()
    }

    /// A connection as root, through the Unix socket.
    pub(crate) async fn conn(&self) -> anyhow::Result<Conn> {
        let opts = OptsBuilder::default()
            .socket(Some(self.socket.display().to_string()))
            .user(Some("root"));
        Ok(Conn::new(opts).await?)
    }

    /// Options for a TCP connection as this user.
    pub(crate) fn opts(&self, user: &str, password: &str) -> Opts {
        OptsBuilder::default()
            .ip_or_hostname("127.0.0.1")
            .tcp_port(self.port)
            // Else the driver moves over to the Unix socket once it has found it.
            .prefer_socket(false)
            .user(Some(user))
            .pass(Some(password))
            .into()
    }

    /// `host:port`, as Causeway's configuration wants it.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn name(&self) -> &str {
        &self.spec.name
    }

    /// The `server_uuid`, as of the latest start.
    pub(crate) fn uuid(&self) -> String {
        self.life().uuid.clone()
    }

    /// The process id of the latest start.
    pub(crate) fn pid(&self) -> u32 {
        self.life().pid
    }

    /// Every global variable as it was after the latest start.
    pub(crate) fn initial_variables(&self) -> Variables {
        self.life().variables.clone()
    }

    /// The end of the error log and of the standard error.
    pub(crate) fn log_tail(&self) -> String {
        let mut tail = String::new();
        for file in ["output.log", "error.log"] {
            let text = std::fs::read_to_string(self.folder.join(file)).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            let last = &lines[lines.len().saturating_sub(40)..];
            tail.push_str(&last.join("\n"));
        }
        tail
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Lets the server end, without waiting for that. For ending several at once.
    pub(crate) fn close(&self) {
        self.life().supervisor.close();
    }

    fn port_was_taken(&self) -> bool {
        self.log_tail().contains("Address already in use")
    }

    /// The options of the latest start.
    pub(crate) fn options(&self) -> Vec<String> {
        self.life().options.clone()
    }

    // A test that panicked while holding the lock has broken nothing in it.
    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.spec.name, self.port)
    }
}
