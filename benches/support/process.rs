//! What a process costs, and `causeway serve` as one of its own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;

/// The kernel counts processor time in this unit (`USER_HZ`, 100 on Linux).
const TICK: Duration = Duration::from_millis(10);
const PAGE: u64 = 4096;

/// Resident memory of this process in bytes.
pub(crate) fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has /proc");
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    PAGE * pages.unwrap_or(0u64)
}

/// Processor time used by a process, in user mode and in the kernel.
pub(crate) fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field, the name, may hold spaces; it ends with the last ")".
    let (_, rest) = stat.rsplit_once(") ").context("a stat line")?;
    let ticks = |field: usize| {
        rest.split(' ')
            .nth(field)
            .and_then(|text| text.parse::<u32>().ok())
    };
    let (user, system) = (ticks(11).context("utime")?, ticks(12).context("stime")?);
    Ok(TICK * (user + system))
}

/// A running `causeway serve`. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Causeway {
    child: Child,
    /// Where its API listens.
    pub(crate) address: SocketAddr,
    _config: tempfile::NamedTempFile,
}

impl Causeway {
    /// Starts it over these servers (name, address) and waits until it is ready.
    pub(crate) fn start(servers: &[(String, String)]) -> anyhow::Result<Self> {
        let mut config = tempfile::NamedTempFile::new()?;
        let entry =
            |(name, address): &(String, String)| format!("{{name={name:?},address={address:?}}}");
        let entries: Vec<String> = servers.iter().map(entry).collect();
        write!(
            config,
            "[mysql]\nuser=\"causeway\"\npassword=\"causeway-pw\"\nservers=[{}]\n[api]\nlisten=\"127.0.0.1:0\"\n",
            entries.join(",")
        )?;
        let mut child = Command::new(env!("CARGO_BIN_EXE_causeway"))
            .args(["serve", "--log-format", "json", "--config"])
            .arg(config.path())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut log = BufReader::new(child.stderr.take().context("stderr is piped")?).lines();
        let address = log.find_map(|line| listening(&line.ok()?));
        // Else it would block once the pipe is full.
        std::thread::spawn(move || log.for_each(drop));
        let causeway = Self {
            child,
            address: address.context("causeway serve does not listen")?,
            _config: config,
        };
        causeway.wait_ready()?;
        Ok(causeway)
    }

    pub(crate) fn cpu_time(&self) -> anyhow::Result<Duration> {
        cpu_time(self.child.id())
    }

    fn wait_ready(&self) -> anyhow::Result<()> {
        for _ in 0..500 {
            let mut client = super::http::BlockingClient::connect(self.address)?;
            if client
                .ask(b"GET /readyz HTTP/1.1\r\nhost: bench\r\n\r\n")
                .is_ok()
            {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        anyhow::bail!("causeway serve does not become ready")
    }
}

impl Drop for Causeway {
    fn drop(&mut self) {
        // Nothing can be done about a failure here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address in the log line that tells it.
fn listening(line: &str) -> Option<SocketAddr> {
    let entry: serde_json::Value = serde_json::from_str(line).ok()?;
    let fields = entry.get("fields")?;
    let tells = fields.get("message")? == "listening";
    tells.then(|| fields.get("address")?.as_str()?.parse().ok())?
}
