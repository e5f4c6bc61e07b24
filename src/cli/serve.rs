//! `causeway serve`: the sidecar itself.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use super::from_proxysql::{Endpoint, LoginArgs, endpoint, learn};
use crate::api;
use crate::config::Config;
use crate::router::Router;

const EXAMPLE: &str = "Examples:
  CAUSEWAY_MYSQL_PASSWORD=... causeway serve --config /etc/causeway/causeway.toml
  CAUSEWAY_PROXYSQL_PASSWORD=... causeway serve --from-proxysql 127.0.0.1:6032

With --from-proxysql it runs with what causeway init would print, and logs in to
the servers as ProxySQL's monitor, with ProxySQL's password for it unless
CAUSEWAY_MYSQL_PASSWORD is set. It makes one hostgroup for each server.
Logs go to standard error; CAUSEWAY_LOG=debug tells more. SIGTERM and SIGINT stop
it, letting running requests end within api.drain.";

/// Options of `causeway serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct ServeArgs {
    /// The configuration file
    #[arg(
        long,
        short,
        value_name = "FILE",
        required_unless_present = "from_proxysql",
        conflicts_with = "from_proxysql"
    )]
    config: Option<PathBuf>,
    /// Instead of a file: ProxySQL's admin interface, as
    /// HOST, HOST:PORT or USER:PASSWORD@HOST:PORT (visible to all on this host)
    #[arg(long, value_name = "ADDRESS", value_parser = endpoint)]
    from_proxysql: Option<Endpoint>,
    #[command(flatten)]
    login: LoginArgs,
    /// Listen here instead of api.listen
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<std::net::SocketAddr>,
    /// Form of the log
    #[arg(long, value_enum, default_value = "text")]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

pub(crate) async fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    start_log(args.log_format);
    let mut config = args.load().await?;
    if let Some(listen) = args.listen {
        config.api.listen = listen;
    }
    let stop = CancellationToken::new();
    stop_on_signal(&stop)?;
    let router = Router::start(&config);
    let app = api::routes(&router, &config.api);
    let served = api::serve(
        app,
        &config.api,
        stop,
        |address| tracing::info!(%address, "listening"),
    )
    .await;
    router.stop().await;
    served?;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

impl ServeArgs {
    async fn load(&self) -> anyhow::Result<Config> {
        let Some(endpoint) = &self.from_proxysql else {
            let path = self
                .config
                .as_deref()
                .expect("clap asks for one of the two");
            return Ok(Config::load(path)?);
        };
        let learnt = learn(endpoint, &self.login).await?;
        for (number, server) in learnt.draft.servers.iter().enumerate() {
            tracing::info!(name = format!("db{}", number + 1), %server, "learnt from ProxySQL");
        }
        learnt.config().await
    }
}

fn start_log(format: LogFormat) {
    let filter = EnvFilter::try_from_env("CAUSEWAY_LOG")
        .unwrap_or_else(|_| EnvFilter::new("info,mysql_async=error"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
}

fn stop_on_signal(stop: &CancellationToken) -> std::io::Result<()> {
    let (mut term, mut int) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    let stop = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        tracing::info!("stopping");
        stop.cancel();
    });
    Ok(())
}
