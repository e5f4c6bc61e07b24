//! The real ProxySQL, in a fresh folder and on fresh ports.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, ensure};

use crate::harness::{
    place::{free_port, fresh_folder},
    poll::until,
    supervisor::Supervisor,
};

use super::{ADMIN, admin::Admin};

const START_WITHIN: Duration = Duration::from_secs(60);
const END_WITHIN: Duration = Duration::from_secs(30);
/// How often other ports are tried when those picked were taken meanwhile.
const PORT_TRIES: usize = 4;
const LOG_LINES_SHOWN: usize = 60;

/// Writes a settings file for a folder, and the ports of the admin and the traffic.
pub(crate) type SettingsFile<'a> = &'a (dyn Fn(&Path, [u16; 2]) -> String + Sync);

/// A running ProxySQL. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Real {
    folder: PathBuf,
    ports: [u16; 2],
    supervisor: Mutex<Supervisor>,
}

impl Real {
    /// Starts this program, and waits until its admin answers.
    pub(super) async fn start(program: &Path) -> anyhow::Result<Self> {
        Self::start_with(program, &settings_file).await
    }

    /// The same with another settings file, made for a folder and the two ports.
    pub(super) async fn start_with(program: &Path, file: SettingsFile<'_>) -> anyhow::Result<Self> {
        let mut failure = None;
        for _ in 0..PORT_TRIES {
            let real = Self::prepare(program, file)?;
            match real.run().await {
                Ok(()) => return Ok(real),
                Err(error) if real.port_was_taken() => failure = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(failure.context("no port was tried")?)
    }

    /// Ends it and starts it in the same folder.
    pub(super) async fn restart(&self) -> anyhow::Result<()> {
        self.stop().await?;
        self.run().await
    }

    /// Ends it, and returns when it has ended.
    pub(super) async fn stop(&self) -> anyhow::Result<()> {
        // It would take its time over a gentle end; SQLite needs none.
        self.supervisor().signal("KILL")?;
        until("ProxySQL to end", END_WITHIN, || async {
            Ok((!self.supervisor().is_alive()?).then_some(()))
        })
        .await
    }

    pub(super) fn admin_port(&self) -> u16 {
        self.ports[0]
    }

    pub(super) fn traffic_port(&self) -> u16 {
        self.ports[1]
    }

    /// The end of its log.
    pub(super) fn log_tail(&self) -> String {
        let log = std::fs::read(self.folder.join("output.log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }

    fn prepare(program: &Path, file: SettingsFile<'_>) -> anyhow::Result<Self> {
        let folder = fresh_folder()?;
        let ports = [free_port()?, free_port()?];
        let settings = folder.path().join("proxysql.cnf");
        std::fs::write(&settings, file(folder.path(), ports))?;
        let words: Vec<OsString> = vec![
            program.into(),
            // In the foreground, without the watcher that would start it again.
            "-f".into(),
            "--no-version-check".into(),
            "-c".into(),
            settings.into(),
            "-D".into(),
            folder.path().into(),
        ];
        // The supervisor comes first: it is what removes the folder.
        let supervisor = Supervisor::new(folder.path(), &words)?;
        Ok(Self {
            folder: folder.keep(),
            ports,
            supervisor: Mutex::new(supervisor),
        })
    }

    async fn run(&self) -> anyhow::Result<()> {
        self.supervisor().start()?;
        until("ProxySQL's admin to answer", START_WITHIN, || async {
            ensure!(
                self.supervisor().is_alive()?,
                "ProxySQL died at its start:\n{}",
                self.log_tail()
            );
            let Ok(mut admin) = Admin::connect(self.admin_port()).await else {
                return Ok(None);
            };
            // The admin answers before the threads for traffic listen.
            let traffic = std::net::TcpStream::connect(("127.0.0.1", self.traffic_port()));
            let ready = admin.text("SELECT version()").await.is_ok() && traffic.is_ok();
            Ok(ready.then_some(()))
        })
        .await
    }

    fn port_was_taken(&self) -> bool {
        self.log_tail().contains("Address already in use")
    }

    // A test that panicked while holding the lock has broken nothing in it.
    fn supervisor(&self) -> MutexGuard<'_, Supervisor> {
        self.supervisor
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// What it must know at its very first start; all else is told to the admin.
fn settings_file(folder: &Path, [admin, traffic]: [u16; 2]) -> String {
    let (user, password) = ADMIN;
    format!(
        "datadir=\"{}\"\n\
         admin_variables={{ admin_credentials=\"{user}:{password}\"; \
         mysql_ifaces=\"127.0.0.1:{admin}\" }}\n\
         mysql_variables={{ threads=2; interfaces=\"127.0.0.1:{traffic}\" }}\n",
        folder.display()
    )
}
