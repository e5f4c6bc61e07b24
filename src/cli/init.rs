//! `causeway init`: a configuration for the servers that ProxySQL knows.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;

use super::from_proxysql::{Endpoint, Learnt, LoginArgs, endpoint, learn};
use crate::proxysql::init::{MYSQL_PASSWORD_ENV, PasswordKey};

const EXAMPLE: &str = "Examples:
  causeway init --from-proxysql 127.0.0.1:6032 --output causeway.toml
  CAUSEWAY_PROXYSQL_PASSWORD=... causeway init --from-proxysql 10.0.0.9:6032 --user radmin
  causeway init --from-proxysql 127.0.0.1:6032 --writer-hostgroup 10

Nothing is changed in ProxySQL, and no password is written into the file. A
password in ADDRESS works, but everybody on this host can see it there.";

/// Options of `causeway init`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct InitArgs {
    /// ProxySQL's admin interface, as HOST, HOST:PORT or USER:PASSWORD@HOST:PORT
    #[arg(long, value_name = "ADDRESS", value_parser = endpoint)]
    from_proxysql: Endpoint,
    #[command(flatten)]
    login: LoginArgs,
    /// Write here instead of to standard output; an existing file is kept
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) async fn run(args: &InitArgs) -> anyhow::Result<ExitCode> {
    let learnt = learn(&args.from_proxysql, &args.login).await?;
    match &args.output {
        None => print!("{}", learnt.text),
        Some(path) => {
            create(path, &learnt.text)?;
            eprintln!("{}", next_steps(path, &learnt));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn create(path: &Path, text: &str) -> anyhow::Result<()> {
    let file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path);
    let mut file = file.with_context(|| format!("cannot create {}", path.display()))?;
    file.write_all(text.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))
}

fn next_steps(path: &Path, learnt: &Learnt) -> String {
    let path = path.display();
    let servers = learnt.draft.servers.len();
    let admin = match &learnt.origin.password {
        PasswordKey::Env(name) => format!(" and {name} (the admin's)"),
        PasswordKey::File(_) => String::new(),
    };
    format!(
        "{path}: {servers} servers. Set {MYSQL_PASSWORD_ENV} (ProxySQL's \
         mysql-monitor_password){admin}, then: causeway check --config {path}"
    )
}
