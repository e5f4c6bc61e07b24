//! A running `causeway serve` for the demo.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tempfile::TempDir;

use crate::harness::{Topology, until};

/// The servers run already, so this is generous.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// The end of its log that is shown when it did not get ready.
const LOG_LINES: usize = 30;
/// A shell stays beside it that ends it when the demo is gone, however the demo
/// ended: reading the pipe then comes to its end. `$1` is the folder to remove.
const SUPERVISOR: &str = r#"
folder=$1; shift
"$@" </dev/null & pid=$!
read -r _
kill -TERM "$pid"
for _ in {1..100}; do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
kill -KILL "$pid" 2>/dev/null
rm -rf "$folder"
"#;

/// The program, its configuration and its log. Dropping this ends it.
#[derive(Debug)]
pub(crate) struct Causeway {
    pub(crate) url: String,
    folder: TempDir,
    shell: Child,
}

/// The `causeway` that was built together with this demo.
pub(crate) fn program() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let built = own.parent().and_then(|examples| examples.parent());
    let program = built.context("no folder above")?.join("causeway");
    if !program.exists() {
        bail!(
            "{} is missing: start the demo with integration/demo",
            program.display()
        );
    }
    Ok(program)
}

impl Causeway {
    /// Starts it on a free port and waits until it says that it is ready.
    /// `more` is appended to its configuration.
    pub(crate) async fn start(topology: &Topology, more: &str) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("causeway-demo-")
            .tempdir()?;
        let listen = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let config = folder.path().join("causeway.toml");
        let text = configuration(topology, &listen) + more;
        std::fs::write(&config, text)?;
        let log = File::create(folder.path().join("causeway.log"))?;
        let shell = Command::new("bash")
            .args(["-c", SUPERVISOR, "supervisor"])
            .arg(folder.path())
            .arg(program()?)
            .args(["serve", "--config"])
            .arg(&config)
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Ctrl-C is for the demo, which ends this one in its turn.
            .process_group(0)
            .spawn()
            .context("bash does not start")?;
        let url = format!("http://{listen}");
        let causeway = Self { url, folder, shell };
        let ready = causeway.wait_until_ready().await;
        ready.with_context(|| causeway.log_tail())?;
        Ok(causeway)
    }

    async fn wait_until_ready(&self) -> anyhow::Result<()> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(Duration::from_secs(2))
            .build()?;
        let url = format!("{}/readyz", self.url);
        until("causeway serve to be ready", READY_WITHIN, || async {
            let answer = http.get(&url).send().await.ok();
            Ok(answer
                .filter(|answer| answer.status().as_u16() == 200)
                .map(drop))
        })
        .await
    }

    fn log_tail(&self) -> String {
        let path = self.folder.path().join("causeway.log");
        let log = std::fs::read_to_string(path).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
        format!("the end of Causeway's log:\n{}", last.join("\n"))
    }

    /// What to do with it while it runs.
    pub(crate) fn print_how_to(&self) {
        let url = &self.url;
        let json = "-H 'content-type: application/json'";
        println!("  Causeway  {url}  (API; metrics at {url}/metrics)");
        println!("  configuration and log: {}", self.folder.path().display());
        println!("  curl -s {url}/v1/servers");
        println!("  curl -s {url}/v1/writes {json} -d '{{\"session\":\"u42\"}}'");
        println!("  curl -s {url}/v1/route {json} -d '{{\"session\":\"u42\",\"explain\":true}}'");
    }
}

impl Drop for Causeway {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // Nothing can be done about a failure here.
        let _ = self.shell.wait();
    }
}

fn configuration(topology: &Topology, listen: &str) -> String {
    let server =
        |name: &str, address: &str| format!("{{ name = \"{name}\", address = \"{address}\" }}");
    let servers = topology.servers().iter();
    let servers: Vec<_> = servers.map(|s| server(s.name(), &s.address())).collect();
    let servers = servers.join(",\n            ");
    format!(
        "[mysql]\nuser = \"causeway\"\npassword = \"causeway-pw\"\n\
         servers = [ {servers} ]\n\n[api]\nlisten = \"{listen}\"\n"
    )
}
