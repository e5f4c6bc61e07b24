//! `causeway serve`: the sidecar itself.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::api;
use crate::config::Config;
use crate::router::Router;

const EXAMPLE: &str = "Example:
  CAUSEWAY_MYSQL_PASSWORD=... causeway serve --config /etc/causeway/causeway.toml

Logs go to standard error; CAUSEWAY_LOG=debug tells more. SIGTERM and SIGINT stop
it, letting running requests end within api.drain.";

/// Options of `causeway serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct ServeArgs {
    /// The configuration file
    #[arg(long, short, value_name = "FILE")]
    config: PathBuf,
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
    let mut config = Config::load(&args.config)?;
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
