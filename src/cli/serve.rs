//! `causeway serve`: the sidecar itself.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use super::daemon::{self, Log};
use crate::api;
use crate::config::Config;
use crate::feed::Feeds;
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
    #[command(flatten)]
    log: Log,
}

pub(crate) async fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    args.log.start();
    let mut config = Config::load(&args.config)?;
    if let Some(listen) = args.listen {
        config.api.listen = listen;
    }
    let stop = daemon::stop_on_signal()?;
    let router = Router::start(&config);
    let feeds = Arc::new(Feeds::start(router.hub(), &config.feed).await?);
    let app = api::routes_with_feeds(&router, &config.api, &feeds);
    let served = api::serve(
        app,
        &config.api,
        stop,
        |address| tracing::info!(%address, "listening"),
    )
    .await;
    feeds.stop().await;
    router.stop().await;
    served?;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}
