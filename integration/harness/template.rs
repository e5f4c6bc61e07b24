//! One initialised data directory, made once per installation and copied for
//! every server.
//!
//! The users are made while initialising, when nothing is written to the binary
//! log, so every server starts with an empty executed set and the same users.

use std::{
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};

use super::{
    install::{Install, checkout},
    settings,
};

/// `causeway` has exactly what the documentation asks for, and no more.
const USERS: &str = "\
CREATE USER root@'127.0.0.1';
GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;
CREATE USER causeway IDENTIFIED BY 'causeway-pw';
GRANT REPLICATION CLIENT ON *.* TO causeway;
GRANT SELECT ON performance_schema.* TO causeway;
CREATE DATABASE app;
CREATE USER app IDENTIFIED BY 'app-pw';
GRANT ALL ON app.* TO app;
CREATE USER repl IDENTIFIED BY 'repl-pw';
GRANT REPLICATION SLAVE ON *.* TO repl;
";

/// Copies the template's data directory to `data`, making the template first if need be.
pub(crate) fn copy_to(install: &Install, data: &Path) -> anyhow::Result<()> {
    copy(&template(install)?.join("data"), data).context("copying the data directory")
}

fn template(install: &Install) -> anyhow::Result<PathBuf> {
    let cache = checkout().join("target/mysql");
    let template = cache.join(format!("template-{:016x}", fingerprint(install)));
    if template.exists() {
        return Ok(template);
    }
    fs::create_dir_all(&cache)?;
    let fresh = tempfile::Builder::new()
        .prefix("template-new-")
        .tempdir_in(&cache)?;
    initialise(install, fresh.path())?;
    // The name appears only when the template is whole. When another process
    // was faster, its template is as good, and this one is dropped.
    if fs::rename(fresh.path(), &template).is_err() && !template.exists() {
        bail!("could not keep the template as {}", template.display());
    }
    Ok(template)
}

// Whatever changes the data directory's content changes its name.
fn fingerprint(install: &Install) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&install.version, USERS).hash(&mut hasher);
    settings::initialise_file(install, Path::new("")).hash(&mut hasher);
    hasher.finish()
}

fn initialise(install: &Install, folder: &Path) -> anyhow::Result<()> {
    fs::write(folder.join("users.sql"), USERS)?;
    let options = folder.join("my.cnf");
    fs::write(&options, settings::initialise_file(install, folder))?;
    let output = install
        .command()
        .arg(format!("--defaults-file={}", options.display()))
        .args(settings::run_as(folder)?)
        .arg("--initialize-insecure")
        .output()?;
    if !output.status.success() {
        let log = fs::read_to_string(folder.join("error.log")).unwrap_or_default();
        bail!(
            "{} could not initialise: {}\n{log}",
            install.daemon.display(),
            output.status
        );
    }
    // Each server makes its own server_uuid.
    match fs::remove_file(folder.join("data/auto.cnf")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
