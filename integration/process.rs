//! The `causeway` command as a process: what a person at a shell meets.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::harness::{Topology, shared, until};
use crate::support::{SOON, config_text};

const CAUSEWAY: &str = env!("CARGO_BIN_EXE_causeway");

/// A `causeway serve` of its own, killed when dropped.
struct Serve {
    child: Child,
    url: String,
    _folder: tempfile::TempDir,
}

fn config_file(folder: &Path, text: &str) -> anyhow::Result<String> {
    let path = folder.join("causeway.toml");
    std::fs::write(&path, text)?;
    Ok(path.display().to_string())
}

impl Serve {
    async fn start(topology: &Topology) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let config = config_file(folder.path(), &config_text(topology, "causeway-pw"))?;
        let mut command = Command::new(CAUSEWAY);
        command
            .args(["serve", "--config", &config, "--log-format", "json"])
            .env_remove("CAUSEWAY_LOG");
        let mut child = command.stderr(Stdio::piped()).kill_on_drop(true).spawn()?;
        let mut log = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let url = loop {
            let line = log.next_line().await?.expect("it listens before it ends");
            let entry: Value = serde_json::from_str(&line)?;
            if let Some(address) = entry["fields"]["address"].as_str() {
                break format!("http://{address}");
            }
        };
        // Read on, so that the log never blocks the process.
        tokio::spawn(async move { while let Ok(Some(_)) = log.next_line().await {} });
        let serve = Self {
            child,
            url,
            _folder: folder,
        };
        until("every server to be usable", SOON, || async {
            Ok((serve.run(&["lag"]).await?.status.success()).then_some(()))
        })
        .await?;
        Ok(serve)
    }

    /// Runs another command against this one.
    async fn run(&self, args: &[&str]) -> anyhow::Result<Output> {
        Ok(Command::new(CAUSEWAY)
            .args(args)
            .env("CAUSEWAY_URL", &self.url)
            .output()
            .await?)
    }

    async fn json(&self, args: &[&str]) -> anyhow::Result<Value> {
        let output = self.run(&[args, &["--format", "json"]].concat()).await?;
        assert!(
            output.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_session() -> anyhow::Result<()> {
    let topology = shared().await;
    let mut serve = Serve::start(&topology).await?;
    let gtid = topology
        .source()
        .write("CREATE TABLE app.t (id INT PRIMARY KEY)")
        .await?;
    let wrote = serve
        .json(&["wrote", "--session", "u1", "--gtid", &gtid])
        .await?;
    assert_eq!(wrote["token"], gtid);
    let route = serve
        .json(&["route", "--session", "u1", "--explain"])
        .await?;
    assert_eq!(route["degraded"], false);
    let fenced = serve.run(&["wrote"]).await?;
    assert!(
        text(&fenced.stdout).contains(&topology.source().uuid()),
        "{}",
        text(&fenced.stdout)
    );
    let lag = serve.run(&["lag"]).await?;
    assert!(
        text(&lag.stdout).contains("db3") && text(&lag.stdout).contains("replica"),
        "{}",
        text(&lag.stdout)
    );
    assert!(serve.run(&["health"]).await?.status.success());
    let wrong = serve.run(&["route", "--token", "x"]).await?;
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        text(&wrong.stderr).contains("token"),
        "{}",
        text(&wrong.stderr)
    );
    let id = serve.child.id().expect("it runs").to_string();
    Command::new("kill").args(["-TERM", &id]).status().await?;
    let status = tokio::time::timeout(Duration::from_secs(10), serve.child.wait()).await??;
    assert!(status.success(), "{status}");
    let gone = serve.run(&["route"]).await?;
    assert!(
        text(&gone.stderr).contains("no answer from Causeway"),
        "{}",
        text(&gone.stderr)
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn check_says_what_to_mend_and_exits_accordingly() -> anyhow::Result<()> {
    let topology = shared().await;
    let folder = tempfile::tempdir()?;
    let check = |text: String| {
        let config = config_file(folder.path(), &text);
        async move {
            anyhow::Ok(
                Command::new(CAUSEWAY)
                    .args(["check", "--config", &config?])
                    .output()
                    .await?,
            )
        }
    };
    let good = check(config_text(&topology, "causeway-pw")).await?;
    assert_eq!(good.status.code(), Some(0), "{}", text(&good.stdout));
    let wrong = check(config_text(&topology, "wrong")).await?;
    assert_eq!(wrong.status.code(), Some(1));
    assert!(
        text(&wrong.stdout).contains("access denied") && text(&wrong.stdout).contains("mend:"),
        "{}",
        text(&wrong.stdout)
    );
    let unknown = check(config_text(&topology, "causeway-pw").replace("[api]", "[apo]")).await?;
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        text(&unknown.stderr).contains("apo") && text(&unknown.stderr).contains("line"),
        "{}",
        text(&unknown.stderr)
    );
    Ok(())
}

/// Every way to carry a promise, checked from outside while one replica shows
/// its rows 20 ms late and the other is up to date.
#[tokio::test(flavor = "multi_thread")]
async fn verify_finds_every_promise_kept() -> anyhow::Result<()> {
    let topology = shared().await;
    topology
        .replica(0)
        .execute_all(&[
            "SET GLOBAL sync_binlog = 0",
            "SET GLOBAL binlog_group_commit_sync_delay = 20000",
        ])
        .await?;
    topology
        .source()
        .execute_all(&[
            "CREATE USER IF NOT EXISTS v@'%' IDENTIFIED BY 'v-pw'",
            "GRANT ALL ON causeway_verify.* TO v@'%'",
        ])
        .await?;
    topology.wait_caught_up().await?;
    let serve = Serve::start(&topology).await?;
    let runs: [&[&str]; 5] = [
        &["--consistency", "session"],
        &["--consistency", "strong"],
        &["--consistency", "bounded", "--max-staleness-ms", "100"],
        &["--consistency", "read_your_writes", "--via", "token"],
        &["--consistency", "session", "--writes", "fence"],
    ];
    for more in runs {
        let common = [
            "verify",
            "--user",
            "v",
            "--url",
            &serve.url,
            "--seconds",
            "2",
            "--clients",
            "6",
            "--format",
            "json",
        ];
        let output = Command::new(CAUSEWAY)
            .args(common)
            .args(more)
            .env("CAUSEWAY_VERIFY_PASSWORD", "v-pw")
            .output()
            .await?;
        assert!(
            output.status.success(),
            "{more:?}: {}\n{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        let report: Value = serde_json::from_slice(&output.stdout)?;
        let policy = &report["policies"][0];
        println!(
            "{more:?}: {} reads, {} % of them off the source",
            policy["reads"], policy["off_source_pct"]
        );
        assert!(
            policy["reads"].as_u64().is_some_and(|reads| reads > 50),
            "{report}"
        );
    }
    topology.source().execute("DROP USER v@'%'").await?;
    Ok(())
}
