//! Which servers there are, and which one is the source now.
//!
//! Asked of Causeway, or of the servers themselves when they are named on the
//! command line, so that other policies can be measured without Causeway. Asked
//! again when a write fails: the source may have changed.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use arc_swap::ArcSwap;
use mysql_async::prelude::Queryable;

use super::api::Api;
use super::args::{VerifyArgs, VerifyServer};
use super::login::Login;
use crate::clock;

/// The topology is asked for at most this often.
const REFRESH_MIN_US: u64 = 1_000_000;
/// How long a server may take to say whether it accepts writes.
const PROBE_MAX: Duration = Duration::from_secs(5);

/// The servers at one moment.
#[derive(Debug, Clone)]
pub(super) struct Topology {
    pub(super) source: VerifyServer,
    pub(super) replicas: Vec<VerifyServer>,
}

impl Topology {
    /// All servers, the source first.
    pub(super) fn servers(&self) -> Vec<VerifyServer> {
        let mut all = vec![self.source.clone()];
        all.extend(self.replicas.iter().cloned());
        all
    }
}

/// The topology as it is now, for everyone.
#[derive(Debug)]
pub(super) struct TopologyWatch {
    current: ArcSwap<Topology>,
    finder: Finder,
    refreshed_us: tokio::sync::Mutex<u64>,
}

/// Where the topology is learned from.
#[derive(Debug)]
pub(super) enum Finder {
    /// Causeway's `GET /v1/servers`.
    Causeway(Arc<Api>),
    /// The servers of the command line, and the name of the source if given.
    Listed(Vec<VerifyServer>, Option<String>, Login),
}

impl Finder {
    pub(super) fn new(args: &VerifyArgs, api: Arc<Api>, login: Login) -> Self {
        if args.servers.is_empty() {
            return Self::Causeway(api);
        }
        Self::Listed(args.servers.clone(), args.source.clone(), login)
    }

    async fn find(&self) -> anyhow::Result<Topology> {
        match self {
            Self::Causeway(api) => split(api.servers().await?),
            Self::Listed(servers, Some(source), _) => {
                let is_source = |server: &VerifyServer| server.name == *source;
                if !servers.iter().any(is_source) {
                    bail!("--source {source} is none of --servers");
                }
                split(servers.iter().map(|s| (s.clone(), is_source(s))).collect())
            }
            Self::Listed(servers, None, login) => probe(servers, login).await,
        }
    }
}

impl TopologyWatch {
    pub(super) async fn start(finder: Finder) -> anyhow::Result<Self> {
        let topology = finder.find().await?;
        Ok(Self {
            current: ArcSwap::from_pointee(topology),
            finder,
            refreshed_us: tokio::sync::Mutex::new(clock::now().micros()),
        })
    }

    pub(super) fn current(&self) -> Arc<Topology> {
        self.current.load_full()
    }

    /// Looks again, unless someone just did. What cannot be learned stays as it
    /// was: the writes go on failing, and are counted.
    pub(super) async fn refresh(&self) {
        let Ok(mut refreshed_us) = self.refreshed_us.try_lock() else {
            return;
        };
        let now_us = clock::now().micros();
        if now_us < refreshed_us.saturating_add(REFRESH_MIN_US) {
            return;
        }
        *refreshed_us = now_us;
        match self.finder.find().await {
            Ok(topology) => self.current.store(Arc::new(topology)),
            Err(error) => tracing::debug!(%error, "the topology could not be learned"),
        }
    }
}

/// Asks each server whether it accepts writes; one that does not answer is taken
/// not to, and is named when no other does.
async fn probe(servers: &[VerifyServer], login: &Login) -> anyhow::Result<Topology> {
    let mut found = Vec::new();
    let mut silent = String::new();
    for server in servers {
        let answer = is_read_only(server, login).await;
        found.push((server.clone(), matches!(answer, Ok(false))));
        if let Err(error) = answer {
            silent.push_str(&format!("; {error:#}"));
        }
    }
    split(found).map_err(|error| anyhow::anyhow!("{error}{silent}"))
}

async fn is_read_only(server: &VerifyServer, login: &Login) -> anyhow::Result<bool> {
    let mut conn = login.connect_or_explain(server).await?;
    let asked = conn.query_first::<Option<u8>, _>("SELECT @@GLOBAL.read_only");
    let answer = tokio::time::timeout(PROBE_MAX, asked).await;
    let answer = answer.with_context(|| format!("{} does not answer", server.name))??;
    let read_only = answer.flatten();
    Ok(read_only
        .with_context(|| format!("{} does not say whether it is read-only", server.name))?
        != 0)
}

/// One source and the rest.
fn split(servers: Vec<(VerifyServer, bool)>) -> anyhow::Result<Topology> {
    let (sources, replicas): (Vec<_>, Vec<_>) = servers.into_iter().partition(|(_, yes)| *yes);
    let mut sources = sources.into_iter().map(|(server, _)| server);
    let source = sources
        .next()
        .context("no source: no server accepts writes")?;
    if let Some(second) = sources.next() {
        bail!(
            "both {} and {} accept writes: name the source with --source",
            source.name,
            second.name
        );
    }
    let replicas = replicas.into_iter().map(|(server, _)| server).collect();
    Ok(Topology { source, replicas })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str) -> VerifyServer {
        VerifyServer::new(name, "127.0.0.1:3306").unwrap()
    }

    #[test]
    fn a_source_that_cannot_be_told_is_an_error() {
        let both = split(vec![(server("a"), true), (server("b"), true)]);
        let message = both.unwrap_err().to_string();
        assert!(message.contains("both a and b"), "{message}");
        assert!(split(vec![(server("a"), false)]).is_err());
    }

    #[test]
    fn one_source_and_the_rest_are_told_apart() {
        let topology = split(vec![(server("a"), false), (server("b"), true)]).unwrap();
        assert_eq!(
            (topology.source, topology.replicas),
            (server("b"), vec![server("a")])
        );
    }
}
