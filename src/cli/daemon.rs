//! What commands have in common that run until they are told to stop.

use std::io::IsTerminal;

use clap::ValueEnum;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// How to log.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Log {
    /// Form of the log
    #[arg(long, value_enum, default_value = "text")]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

impl Log {
    /// From now on, log to standard error.
    pub(super) fn start(self) {
        let filter = EnvFilter::try_from_env("CAUSEWAY_LOG")
            .unwrap_or_else(|_| EnvFilter::new("info,mysql_async=error"));
        let log = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal());
        match self.log_format {
            LogFormat::Text => log.init(),
            LogFormat::Json => log.json().init(),
        }
    }
}

/// Cancelled by SIGTERM and SIGINT.
pub(super) fn stop_on_signal() -> std::io::Result<CancellationToken> {
    let (mut term, mut int) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        tracing::info!("stopping");
        stopped.cancel();
    });
    Ok(stop)
}
