//! Causeway over a topology of the harness, for the tests.

use std::time::Duration;

use anyhow::Context as _;
use causeway::config::Config;
use causeway::fleet::{FleetView, Role};
use causeway::gtid::GtidSet;
use causeway::router::{Read, Route, Router, Write};

use crate::harness::{Server, Topology, until};

pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The configuration for a topology, with `more` appended to it.
pub(crate) fn config(topology: &Topology, more: &str) -> Config {
    let text = config_text(topology, "causeway-pw") + more;
    Config::parse(&text, &|_| None).expect("the test's configuration is right")
}

/// The text of a configuration, which ends in the section `[api]`.
pub(crate) fn config_text(topology: &Topology, password: &str) -> String {
    let entry = |server: &Server| {
        let (name, address) = (server.name(), server.address());
        format!("{{ name = {name:?}, address = {address:?} }}")
    };
    let servers: Vec<String> = topology.servers().iter().map(entry).collect();
    format!(
        "[mysql]\nuser = \"causeway\"\npassword = {password:?}\nservers = [{}]\n[api]\nlisten = \"127.0.0.1:0\"\n",
        servers.join(",")
    )
}

/// A router that knows the source and has evidence of every server.
pub(crate) async fn router(topology: &Topology, more: &str) -> anyhow::Result<Router> {
    let router = Router::start(&config(topology, more));
    knows_every_server(&router).await?;
    Ok(router)
}

/// Waits until the router knows the source and could send a read anywhere.
pub(crate) async fn knows_every_server(router: &Router) -> anyhow::Result<()> {
    let known = |view: &FleetView| view.source().is_some() && view.servers.iter().all(settled);
    view_until(router, "the router to know every server", known).await
}

fn settled(server: &causeway::fleet::ServerView) -> bool {
    server.usable
        && (server.role == Role::Source || server.fresh_as_of.is_some() && server.covers_floor)
}

/// Waits until `seen` holds of the router's view.
pub(crate) async fn view_until(
    router: &Router,
    what: &str,
    seen: impl Fn(&FleetView) -> bool,
) -> anyhow::Result<()> {
    until(what, SOON, || async {
        Ok(seen(&router.view()).then_some(()))
    })
    .await
}

pub(crate) fn set(gtid: &str) -> GtidSet {
    gtid.parse().expect("a GTID set")
}

/// Reports a commit with its GTID.
pub(crate) async fn wrote(router: &Router, session: &str, gtid: &str) -> anyhow::Result<GtidSet> {
    Ok(router
        .wrote(&Write {
            session: Some(session),
            gtid: Some(set(gtid)),
        })
        .await?)
}

/// Routes a read of a session with the configured promise.
pub(crate) async fn route(router: &Router, session: &str) -> anyhow::Result<Route> {
    router
        .route(&Read {
            session: Some(session),
            ..Read::default()
        })
        .await
        .context("no route")
}

/// The server of the topology that a route names.
pub(crate) fn server<'a>(topology: &'a Topology, route: &Route) -> &'a Server {
    let found = topology
        .servers()
        .iter()
        .find(|server| server.name() == route.info.name);
    found.expect("a route names a server of the topology")
}
