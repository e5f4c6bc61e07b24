//! Where the server programs are, and how they are started.
//!
//! `integration/get-mysql` decides which installation is used; this only reads
//! its layout: Debian's packages, an installation prefix or a vendor's archive.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
};

use anyhow::{Context as _, bail};

/// One installation of a server.
#[derive(Clone, Debug)]
pub(crate) struct Install {
    /// The folder that `get-mysql` printed.
    pub(crate) home: PathBuf,
    /// The server program.
    pub(crate) daemon: PathBuf,
    /// What `--version` says.
    pub(crate) version: String,
    loader: Option<Loader>,
}

/// An unpacked installation brings its own C library, newer than the
/// system's, so its programs are started by its own dynamic loader.
#[derive(Clone, Debug)]
struct Loader {
    program: PathBuf,
    libraries: PathBuf,
}

impl Install {
    /// The MySQL of this machine, downloaded when there is none.
    pub(crate) fn find() -> anyhow::Result<Self> {
        static FOUND: Mutex<Option<Install>> = Mutex::new(None);
        Self::find_once(&FOUND, &[], "mysqld")
    }

    /// The MariaDB of this machine, downloaded when there is none.
    pub(crate) fn find_mariadb() -> anyhow::Result<Self> {
        static FOUND: Mutex<Option<Install>> = Mutex::new(None);
        Self::find_once(&FOUND, &["--mariadb"], "mariadbd")
    }

    // The lock is held while looking, so that parallel tests look once.
    fn find_once(
        found: &Mutex<Option<Self>>,
        arguments: &[&str],
        daemon: &str,
    ) -> anyhow::Result<Self> {
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(install) = &*found {
            return Ok(install.clone());
        }
        let install = Self::at(&home(arguments)?, daemon)?;
        *found = Some(install.clone());
        Ok(install)
    }

    fn at(home: &Path, daemon: &str) -> anyhow::Result<Self> {
        let program = first_existing(
            home,
            &["usr/sbin", "sbin", "bin", "libexec"].map(|folder| format!("{folder}/{daemon}")),
        );
        let mut install = Self {
            home: home.to_owned(),
            daemon: program.with_context(|| format!("no {daemon} in {}", home.display()))?,
            version: String::new(),
            loader: Loader::of(home),
        };
        install.version = install.ask_version()?;
        Ok(install)
    }

    /// The words that start the server, before its own options.
    pub(crate) fn command_line(&self) -> Vec<OsString> {
        let mut words = Vec::new();
        if let Some(loader) = &self.loader {
            words.push(loader.program.clone().into());
            words.push("--library-path".into());
            words.push(loader.libraries.clone().into());
        }
        words.push(self.daemon.clone().into());
        words
    }

    /// The same, ready to run.
    pub(crate) fn command(&self) -> Command {
        let words = self.command_line();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    }

    /// The settings that tell a server where its own files are, which it looks
    /// for at the places it was built for.
    pub(crate) fn own_files(&self) -> Vec<(&'static str, PathBuf)> {
        let plugins = [
            "usr/lib/mysql/plugin",
            "lib64/mysql/plugin",
            "lib/mysql/plugin",
            "lib/plugin",
        ];
        [
            ("basedir", first_existing(&self.home, &["usr", ""])),
            ("lc_messages_dir", self.share()),
            ("plugin_dir", first_existing(&self.home, &plugins)),
        ]
        .into_iter()
        .filter_map(|(name, path)| Some((name, path?)))
        .collect()
    }

    /// The folder of messages and system tables: the one with the English messages in it.
    pub(crate) fn share(&self) -> Option<PathBuf> {
        let shares = [
            "usr/share/mysql",
            "usr/share/mariadb",
            "share/mysql",
            "share/mariadb",
            "share",
        ];
        let english = first_existing(&self.home, &shares.map(|share| format!("{share}/english")))?;
        Some(english.parent()?.to_owned())
    }

    fn ask_version(&self) -> anyhow::Result<String> {
        let output = self
            .command()
            .args(["--no-defaults", "--version"])
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let (_, version) = text.split_once("Ver ").context("no version in --version")?;
        Ok(version
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned())
    }
}

impl Loader {
    fn of(home: &Path) -> Option<Self> {
        // The system's own installation is loaded the system's way.
        if home == Path::new("/") {
            return None;
        }
        let architecture = std::env::consts::ARCH;
        let libraries = home.join(format!("usr/lib/{architecture}-linux-gnu"));
        let program = std::fs::read_dir(&libraries)
            .ok()?
            .flatten()
            .find(|entry| {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                name.starts_with("ld-linux") && name.contains(".so.")
            })?;
        Some(Self {
            program: program.path(),
            libraries,
        })
    }
}

/// The checkout's root.
pub(crate) fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn home(arguments: &[&str]) -> anyhow::Result<PathBuf> {
    let output = Command::new(checkout().join("integration/get-mysql"))
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .context("integration/get-mysql does not start")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    match printed.lines().last() {
        Some(home) if output.status.success() => Ok(home.into()),
        _ => bail!(
            "integration/get-mysql {arguments:?} found no server: {}",
            output.status
        ),
    }
}

fn first_existing(home: &Path, places: &[impl AsRef<Path>]) -> Option<PathBuf> {
    places
        .iter()
        .map(|place| home.join(place))
        .find(|path| path.exists())
}
