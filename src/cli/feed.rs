//! `causeway feed`: the GTID feeds and nothing else, on a database's host say.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::daemon::{self, Log};
use crate::config::{Config, Feed, Listen};
use crate::feed::Feeds;
use crate::fleet::{ServerIx, ServerSpec, split_address};
use crate::observe::{self, Login, Settings, Tls};

const EXAMPLE: &str = "Examples:
  CAUSEWAY_MYSQL_PASSWORD=... causeway feed --server 127.0.0.1:3306 --listen 0.0.0.0:6020
  causeway feed --config /etc/causeway/causeway.toml    # all of its [feed] section

ProxySQL connects to the database's own host name, at the gtid_port of its row in
mysql_servers: UPDATE mysql_servers SET gtid_port=6020; LOAD MYSQL SERVERS TO RUNTIME.
The feed has no encryption and asks for no password: let only ProxySQL reach it.

Logs go to standard error; CAUSEWAY_LOG=debug tells more. Exit code: 0 when it was
stopped with SIGTERM or SIGINT; 2 when it could not start.";

/// What a configuration file says itself.
const OPTIONS: [&str; 5] = ["server", "listen", "user", "password_env", "tls"];

/// Options of `causeway feed`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct FeedArgs {
    /// A configuration file with a section `feed`, instead of the options below
    #[arg(long, short, value_name = "FILE", conflicts_with_all = OPTIONS, required_unless_present = "server")]
    config: Option<PathBuf>,
    /// The MySQL server to tell of
    #[arg(long, value_name = "HOST:PORT", requires = "listen")]
    server: Option<String>,
    /// Where ProxySQL connects to
    #[arg(long, value_name = "ADDRESS", requires = "server")]
    listen: Option<SocketAddr>,
    /// The user: REPLICATION CLIENT, SELECT on performance_schema
    #[arg(long, default_value = "causeway")]
    user: String,
    /// Environment variable that holds the password
    #[arg(long, default_value = "CAUSEWAY_MYSQL_PASSWORD", value_name = "NAME")]
    password_env: String,
    /// disabled, preferred, required or verify
    #[arg(long, default_value = "preferred", value_name = "MODE", value_parser = tls)]
    tls: Tls,
    #[command(flatten)]
    log: Log,
}

/// What is needed of a configuration.
struct Plan {
    servers: Vec<ServerSpec>,
    login: Login,
    settings: Settings,
    feed: Feed,
}

pub(crate) async fn run(args: &FeedArgs) -> anyhow::Result<ExitCode> {
    args.log.start();
    let plan = args.plan()?;
    let stop = daemon::stop_on_signal()?;
    let (end, tasks) = (CancellationToken::new(), TaskTracker::new());
    let hub = observe::watch(
        &plan.servers,
        &Arc::new(plan.login),
        &plan.settings,
        &end,
        &tasks,
    );
    let feeds = Feeds::start(&hub, &plan.feed).await?;
    stop.cancelled().await;
    feeds.stop().await;
    end.cancel();
    tasks.close();
    tasks.wait().await;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

impl FeedArgs {
    fn plan(&self) -> anyhow::Result<Plan> {
        match (&self.config, &self.server, self.listen) {
            (Some(path), ..) => {
                let config = Config::load(path)?;
                ensure!(
                    !config.feed.listen.is_empty(),
                    "feed.listen: names no server in {}",
                    path.display()
                );
                Ok(Plan {
                    servers: config.servers,
                    login: config.login,
                    settings: config.observe,
                    feed: config.feed,
                })
            }
            (None, Some(server), Some(listen)) => self.plan_one(server, listen),
            _ => bail!("give --config, or --server and --listen"),
        }
    }

    fn plan_one(&self, server: &str, listen: SocketAddr) -> anyhow::Result<Plan> {
        split_address(server).with_context(|| format!("--server: {server:?} is not host:port"))?;
        let password = std::env::var(&self.password_env).with_context(|| {
            format!(
                "--password-env: the environment variable {}",
                self.password_env
            )
        })?;
        let spec = ServerSpec {
            name: server.to_owned(),
            address: server.to_owned(),
            zone: None,
        };
        let login = Login {
            user: self.user.clone(),
            password,
            tls: self.tls,
            tls_ca: None,
        };
        let listen = Listen {
            server: ServerIx(0),
            address: listen,
        };
        Ok(Plan {
            servers: vec![spec],
            login,
            settings: Settings::default(),
            feed: Feed {
                listen: vec![listen],
            },
        })
    }
}

fn tls(text: &str) -> Result<Tls, String> {
    let read: Result<Tls, serde::de::value::Error> =
        serde::Deserialize::deserialize(serde::de::IntoDeserializer::into_deserializer(text));
    read.map_err(|error| error.to_string())
}
