//! Encrypted connections: required, and verified against an authority.

use anyhow::Context as _;
use causeway::observe::Tls;
use causeway::router::Router;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::harness::{Server, Topology, TopologySpec, until};
use crate::support::{SOON, config};

/// Writes an authority and a certificate for 127.0.0.1 signed by it.
fn certificates(folder: &std::path::Path) -> anyhow::Result<()> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let server = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()])?
        .signed_by(&key, &authority)?;
    std::fs::write(folder.join("ca.pem"), authority.pem())?;
    std::fs::write(folder.join("cert.pem"), server.pem())?;
    std::fs::write(folder.join("key.pem"), key.serialize_pem())?;
    Ok(())
}

/// How many of Causeway's connections the server sees, and how many of those
/// are encrypted.
async fn connections(server: &Server) -> anyhow::Result<(u64, u64)> {
    let both = "SELECT COUNT(*), CAST(COALESCE(SUM(CONNECTION_TYPE = 'SSL/TLS'), 0) AS UNSIGNED) \
                FROM performance_schema.threads WHERE PROCESSLIST_USER = 'causeway'";
    let rows: Vec<(u64, u64)> = server.query(both).await?;
    rows.first().copied().context("a count gives a row")
}

/// Waits until all of a server's connections are made: the pump, the status poll,
/// two barriers and the fence.
async fn all_connections(server: &Server) -> anyhow::Result<(u64, u64)> {
    until("five connections to the server", SOON, || async {
        Ok(Some(connections(server).await?).filter(|(all, _)| *all == 5))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_checked_when_asked_for() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    certificates(folder.path())?;
    let spec = ["ca", "cert", "key"]
        .iter()
        .fold(TopologySpec::new(0), |spec, part| {
            spec.option(&format!(
                "ssl_{part}={}",
                folder.path().join(format!("{part}.pem")).display()
            ))
        });
    let topology = Topology::start(spec).await?;
    let mut config = config(&topology, "");
    config.login.tls = Tls::Verify;
    config.login.tls_ca = Some(folder.path().join("ca.pem"));
    let router = Router::start(&config);
    until("the server to be usable over TLS", SOON, || async {
        Ok(router.view().source().map(|_| ()))
    })
    .await?;
    let (all, encrypted) = all_connections(topology.source()).await?;
    assert!(
        all > 0 && all == encrypted,
        "{encrypted} of {all} connections are encrypted"
    );
    router.stop().await;

    let stranger = tempfile::tempdir()?;
    certificates(stranger.path())?;
    config.login.tls_ca = Some(stranger.path().join("ca.pem"));
    let router = Router::start(&config);
    until("the certificate to be refused", SOON, || async {
        let view = router.view();
        Ok(view.servers[0]
            .fault()
            .map(ToString::to_string)
            .filter(|error| error.contains("certificate")))
    })
    .await?;
    router.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tls_is_refused_where_tls_is_required() -> anyhow::Result<()> {
    let topology = Topology::start(TopologySpec::new(0).option("tls_version=")).await?;
    let mut config = config(&topology, "");
    let router = Router::start(&config);
    until("the server to be usable without TLS", SOON, || async {
        Ok(router.view().source().map(|_| ()))
    })
    .await?;
    router.stop().await;
    config.login.tls = Tls::Required;
    let router = Router::start(&config);
    until("the server to be refused", SOON, || async {
        let view = router.view();
        Ok(view.servers[0]
            .fault()
            .filter(|fault| fault.kind() != "not_connected_yet")
            .map(|_| ()))
    })
    .await?;
    router.stop().await;
    Ok(())
}
