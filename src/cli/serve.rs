//! `causeway serve`: the sidecar itself.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use super::daemon::{self, Log};

use super::from_proxysql::{Endpoint, LoginArgs, endpoint, learn};
use crate::api;
use crate::config::Config;
use crate::feed::Feeds;
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
    #[command(flatten)]
    log: Log,
}

pub(crate) async fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    args.log.start();
    let mut config = args.load().await?;
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
