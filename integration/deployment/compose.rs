//! `compose.yaml`, and the files that it mounts.
//!
//! The SQL, the proxysql.cnf and the causeway.toml run on real servers with its
//! options, a real ProxySQL and Causeway; names become addresses.

use std::path::Path;

use anyhow::Context as _;
use causeway::config::Config;
use causeway::route::Consistency;
use causeway::router::{Read, Router};
use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use serde_norway::Value;

use super::{documents, mapping, path, text, words};
use crate::harness::{ProxySql, Server, ServerSpec, until};
use crate::support::{SOON, knows_every_server};

const MYSQLS: [&str; 3] = ["source", "replica1", "replica2"];

fn compose() -> anyhow::Result<Value> {
    documents("compose.yaml")?.pop().context("one document")
}

#[test]
fn compose_publishes_on_loopback_only_and_mounts_what_exists() -> anyhow::Result<()> {
    let compose = compose()?;
    let services = mapping(&compose["services"]);
    assert_eq!(services.len(), 5);
    for (name, service) in &services {
        for port in words(&service["ports"]) {
            assert!(port.starts_with("127.0.0.1:"), "{name}: {port}");
        }
        for volume in words(&service["volumes"]) {
            let file = volume.split(':').next().context("a path")?;
            assert!(path(file).is_file() && volume.ends_with(":ro"), "{volume}");
        }
        let pinned = service["image"]
            .as_str()
            .is_some_and(|image| image.contains(':'));
        assert!(pinned || service["build"]["context"] == "..", "{name}");
        for (needed, how) in mapping(&service["depends_on"]) {
            assert_eq!(how["condition"], "service_healthy");
            let needed = services.get(needed).context("a service")?;
            assert!(!needed["healthcheck"].is_null(), "{name}");
        }
    }
    for name in MYSQLS {
        assert_eq!(services[name]["image"], "mysql:8.4");
    }
    Ok(())
}

/// Puts addresses in the place of `compose.yaml`'s names, which stand in the text in
/// this form.
fn with_addresses(
    mut text: String,
    form: impl Fn(&str, u16) -> String,
    servers: &[Server],
) -> String {
    for (name, server) in MYSQLS.iter().zip(servers) {
        let (named, real) = (form(name, 3306), form("127.0.0.1", server.port));
        assert!(text.contains(&named), "{named} is not in:\n{text}");
        text = text.replace(&named, &real);
    }
    text
}

/// Starts the three servers as `compose.yaml` does, users and replication included.
async fn servers() -> anyhow::Result<Vec<Server>> {
    let compose = compose()?;
    let mut servers: Vec<Server> = Vec::new();
    for (id, name) in (1..).zip(MYSQLS) {
        let options = words(&compose["services"][name]["command"]);
        let options = options.into_iter().map(str::to_owned).collect();
        let name = name.to_owned();
        let server = Server::start(ServerSpec { name, id, options }).await?;
        // An image has none of the harness's own users.
        let bare = [
            "SET sql_log_bin = 0",
            "DROP USER causeway, app, repl",
            "DROP DATABASE app",
        ];
        server.execute_all(&bare).await?;
        let sql = match servers.first() {
            None => text("compose/source.sql")?,
            Some(source) => replica_sql(source)?,
        };
        server.execute_all(&statements(&sql)).await?;
        // The image's entry point starts the server once more after the SQL.
        server.stop().await?;
        server.restart().await?;
        servers.push(server);
    }
    Ok(servers)
}

fn replica_sql(source: &Server) -> anyhow::Result<String> {
    let sql = text("compose/replica.sql")?;
    let sql = sql.replace("SOURCE_HOST = 'source'", "SOURCE_HOST = '127.0.0.1'");
    Ok(sql.replace(
        "SOURCE_PORT = 3306",
        &format!("SOURCE_PORT = {}", source.port),
    ))
}

/// The statements of a file in which each ends a line.
fn statements(sql: &str) -> Vec<&str> {
    let all = sql.split(";\n").map(str::trim);
    all.filter(|statement| !statement.is_empty()).collect()
}

async fn replicates(server: &Server) -> anyhow::Result<()> {
    until(&format!("{server} to have the schema"), SOON, || async {
        let query = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'shop'";
        Ok((server.value::<u64>(query).await? == 1).then_some(()))
    })
    .await?;
    assert_eq!(server.value::<u8>("SELECT @@super_read_only").await?, 1);
    let errant = "SELECT @@gtid_executed LIKE CONCAT('%', @@server_uuid, '%')";
    assert_eq!(
        server.value::<u8>(errant).await?,
        0,
        "{server} has transactions of its own"
    );
    Ok(())
}

fn causeway_config(servers: &[Server], proxy: &ProxySql) -> anyhow::Result<Config> {
    let toml = with_addresses(
        text("compose/causeway.toml")?,
        |h, p| format!("\"{h}:{p}\""),
        servers,
    );
    let toml = toml.replace("proxysql:6032", &proxy.admin_address());
    let compose = compose()?;
    let given = mapping(&compose["services"]["causeway"]["environment"]);
    let env = |name: &str| Some(given.get(name)?.as_str()?.to_owned());
    Ok(Config::parse(&toml, &env)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_files_of_compose_work_together() -> anyhow::Result<()> {
    let servers = servers().await?;
    for replica in &servers[1..] {
        replicates(replica).await?;
    }
    let cnf = |folder: &Path, [admin, traffic]: [u16; 2]| {
        let cnf = text("compose/proxysql.cnf").expect("the file is there");
        let form = |host: &str, port| format!("address=\"{host}\", port={port},");
        with_addresses(cnf, form, &servers)
            .replace("/var/lib/proxysql", &folder.display().to_string())
            .replace("0.0.0.0:6032", &format!("127.0.0.1:{admin}"))
            .replace("0.0.0.0:6033", &format!("127.0.0.1:{traffic}"))
    };
    let Some(proxy) = ProxySql::start_with(&cnf).await? else {
        eprintln!("no PROXYSQL_BIN, none on PATH: proxysql.cnf and causeway.toml were not run");
        return Ok(());
    };
    let router = Router::start(&causeway_config(&servers, &proxy)?);
    knows_every_server(&router).await?;
    let read = Read {
        consistency: Some(Consistency::Eventual),
        ..Read::default()
    };
    let hostgroup = until("an answer with a hostgroup", SOON, || async {
        Ok(router.route(&read).await?.hostgroup)
    })
    .await?;

    let mut app = Conn::new(proxy.traffic_opts("app")).await?;
    app.query_drop("INSERT INTO shop.orders (item) VALUES ('tea')")
        .await?;
    let count = format!("/* hostgroup={hostgroup} */ SELECT COUNT(*) FROM shop.orders");
    until("the hinted read to show the order", SOON, || async {
        let mut reader = Conn::new(proxy.traffic_opts("app")).await?;
        let found: Option<u64> = reader.query_first(&count).await?;
        reader.disconnect().await?;
        Ok((found == Some(1)).then_some(()))
    })
    .await?;
    app.disconnect().await?;
    router.stop().await;
    proxy.stop().await
}
