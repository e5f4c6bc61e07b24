//! Causeway over real servers of the integration tests' harness.

#![allow(dead_code, reason = "each benchmark uses its own part")]

use std::time::Duration;

use causeway::config::Config;
use causeway::router::Router;

use crate::harness::{Server, Topology, until};

const SOON: Duration = Duration::from_secs(20);

/// Name and address of every server.
pub(crate) fn servers(topology: &Topology) -> Vec<(String, String)> {
    let named = |server: &Server| (server.name().to_owned(), server.address());
    topology.servers().iter().map(named).collect()
}

/// A router over the topology that knows every server; `tls` as in the
/// configuration.
pub(crate) async fn router(topology: &Topology, tls: &str) -> anyhow::Result<(Router, Config)> {
    let entry = |(name, address)| format!("{{name={name:?},address={address:?}}}");
    let entries: Vec<String> = servers(topology).into_iter().map(entry).collect();
    let text = format!(
        "[mysql]\nuser=\"causeway\"\npassword=\"causeway-pw\"\ntls={tls:?}\nservers=[{}]\n\
         [api]\nlisten=\"127.0.0.1:0\"\n[routing]\nmax_wait_limit=\"10s\"\n",
        entries.join(",")
    );
    let config = Config::parse(&text, &|_| None)?;
    let router = Router::start(&config);
    until("the router to know every server", SOON, || async {
        let view = router.view();
        let known = view.source().is_some()
            && view
                .servers
                .iter()
                .all(|server| server.usable && server.covers_floor);
        Ok(known.then_some(()))
    })
    .await?;
    Ok((router, config))
}
