//! The command line of `causeway verify`, and what its values mean.
//!
//! Parsing only: nothing here connects, and every value that could be wrong by
//! itself is refused here, naming the option.

use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;

use super::checker::Consistency;
use super::policy::Policy;

const EXAMPLES: &str = "\
Examples:
  Check what a running Causeway promises, for 30 s with 8 sessions:
    CAUSEWAY_VERIFY_PASSWORD=… causeway verify --user verify
  Check strong reads, carried by tokens, and get JSON:
    causeway verify --user verify --consistency strong --via token --format json
  Compare ways of routing on the same traffic, in three rotations:
    causeway verify --user verify --policies all --seconds 20 --rounds 3
  See how stale your replicas are without Causeway:
    causeway verify --user verify --policies random,sticky:2s --servers db1=10.0.0.1:3306,db2=10.0.0.2:3306
  Send all of it through ProxySQL: as its rules route it, and with Causeway's hints:
    causeway verify --user verify --policies rules,causeway --through 127.0.0.1:6033

The login needs CREATE, DROP, INSERT, UPDATE and SELECT on the scratch schema.

Exit code: 0 every promise was kept; 1 a promise of Causeway was broken; 2 nothing
could be checked (wrong usage, no connection, no read answered).";

/// Options of `causeway verify`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct VerifyArgs {
    /// Where Causeway listens
    #[arg(long, default_value = "http://127.0.0.1:7071", value_name = "URL")]
    pub url: String,

    /// Environment variable that holds the token of Causeway's interface, if it asks for one
    #[arg(long, default_value = "CAUSEWAY_API_TOKEN", value_name = "NAME")]
    pub api_token_env: String,

    /// MySQL servers, instead of asking Causeway; the one that accepts writes is
    /// the source
    #[arg(long, value_delimiter = ',', value_name = "NAME=HOST:PORT")]
    pub servers: Vec<VerifyServer>,

    /// The name of the source, where several of --servers accept writes
    #[arg(long, value_name = "NAME", requires = "servers")]
    pub source: Option<String>,

    /// ProxySQL's traffic port: reads and writes go there, with the same login. Only
    /// the scratch table is set up on the servers themselves
    #[arg(long, value_parser = parse_through, value_name = "HOST:PORT")]
    pub through: Option<VerifyServer>,

    /// MySQL user of the traffic
    #[arg(long, default_value = "causeway_verify")]
    pub user: String,

    /// Environment variable that holds the MySQL password (unset: no password)
    #[arg(long, default_value = "CAUSEWAY_VERIFY_PASSWORD", value_name = "NAME")]
    pub password_env: String,

    /// Scratch schema: created if missing, and then dropped at the end
    #[arg(long, default_value = "causeway_verify", value_parser = parse_schema)]
    pub schema: String,

    /// Keep the scratch table and schema
    #[arg(long)]
    pub keep: bool,

    /// Ways of routing to run: all, or any of source, random, sticky (or sticky:2s),
    /// barrier (or barrier:50ms), causeway; with --through: rules, hostgroup:N,
    /// causeway
    #[arg(long, default_value = "causeway", value_delimiter = ',', value_parser = parse_policies)]
    pub policies: Vec<PolicyChoice>,

    /// Sessions; each writes its own row
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub clients: u32,

    /// How many of the sessions write only every 5 s; they read as the others do
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub quiet: u32,

    /// Seconds of traffic for each policy, over all rounds
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,

    /// Rotate through the policies this often, so that each meets the same weather
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rounds: u32,

    /// Think time after each cycle of a write and its reads (as in 5ms, 1s)
    #[arg(long, default_value = "0ms", value_parser = parse_duration, value_name = "TIME")]
    pub pause: Duration,

    /// Reads in each cycle: the own row, then another session's, then any
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000), value_name = "N")]
    pub reads_per_write: u32,

    /// Seed of every random choice of the traffic
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// How Causeway learns of a write: its GTID, or a fence
    #[arg(long, value_enum, default_value = "gtid")]
    pub writes: WriteReport,

    /// What carries a session's promise from write to read
    #[arg(long, value_enum, default_value = "session")]
    pub via: Carrier,

    /// Consistency to ask for (without: what Causeway is configured to promise)
    #[arg(long, value_enum)]
    pub consistency: Option<Consistency>,

    /// Staleness to accept at most; needed for --consistency bounded
    #[arg(long, value_name = "MS", required_if_eq("consistency", "bounded"))]
    pub max_staleness_ms: Option<u64>,

    /// How long Causeway may wait for a replica
    #[arg(long, value_name = "MS")]
    pub max_wait_ms: Option<u64>,

    /// What Causeway is to do when no replica catches up in time
    #[arg(long, value_enum)]
    pub on_timeout: Option<OnTimeout>,

    /// Zone to ask for
    #[arg(long)]
    pub zone: Option<String>,

    /// Form of the report on standard output
    #[arg(long, value_enum, default_value = "table")]
    pub format: ReportFormat,
}

impl VerifyArgs {
    /// The policies to run, in order, each once.
    #[must_use]
    pub fn policy_list(&self) -> Vec<Policy> {
        let max_wait = self.max_wait_ms.map(Duration::from_millis);
        let mut list = Vec::new();
        for choice in &self.policies {
            let chosen = match choice {
                PolicyChoice::All if self.through.is_some() => Policy::all_through(),
                PolicyChoice::All => Policy::all(max_wait),
                PolicyChoice::One(policy) => vec![policy.with_wait(max_wait)],
            };
            for policy in chosen {
                if !list.contains(&policy) {
                    list.push(policy);
                }
            }
        }
        list
    }

    /// Refuses policies that cannot be run this way.
    pub(super) fn check_policies(&self) -> Result<(), String> {
        let through = self.through.is_some();
        let mut list = self.policy_list().into_iter();
        match list.find(|policy| !policy.runs(through)) {
            None => Ok(()),
            Some(policy) if through => Err(format!(
                "`{policy}` goes to the servers itself: with --through there are rules, \
                 hostgroup:N and causeway"
            )),
            Some(policy) => Err(format!("`{policy}` needs --through HOST:PORT")),
        }
    }
}

/// A MySQL server of the deployment under test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyServer {
    /// The name in reports; Causeway's name for it where Causeway is asked.
    pub name: String,
    /// Host name or address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl FromStr for VerifyServer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, address) = text
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| format!("`{text}` is not NAME=HOST:PORT"))?;
        Self::new(name, address)
    }
}

impl VerifyServer {
    /// A server by name and `host:port` (an IPv6 host in brackets).
    pub fn new(name: &str, address: &str) -> Result<Self, String> {
        let wrong = || format!("`{address}` of server `{name}` is not HOST:PORT");
        let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(wrong());
        }
        Ok(Self {
            name: name.into(),
            host: host.into(),
            port: port.parse().map_err(|_| wrong())?,
        })
    }
}

/// One entry of `--policies`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyChoice {
    /// Every policy, with its defaults.
    All,
    /// One policy.
    One(Policy),
}

/// How Causeway learns of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WriteReport {
    /// `POST /v1/writes` with the write's GTID.
    Gtid,
    /// `POST /v1/writes` without: Causeway asks the source.
    Fence,
}

/// What carries a session's promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Carrier {
    /// A session id that Causeway remembers.
    Session,
    /// A token that the client holds.
    Token,
}

/// What to do when no replica catches up in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// Read from the source.
    Source,
    /// Read a stale replica, marked as degraded.
    Stale,
    /// Refuse the read.
    Error,
}

/// Form of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// A table for people.
    Table,
    /// One JSON object.
    Json,
}

/// Reads `250ms`, `2s` or `1m`.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits
        .parse()
        .map_err(|_| format!("`{text}` is not a time such as 250ms or 2s"))?;
    match &text[digits.len()..] {
        "us" => Ok(Duration::from_micros(number)),
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(number.saturating_mul(60))),
        unit => Err(format!("unit `{unit}` of `{text}` is none of us, ms, s, m")),
    }
}

fn parse_policies(text: &str) -> Result<PolicyChoice, String> {
    if text == "all" {
        return Ok(PolicyChoice::All);
    }
    text.parse().map(PolicyChoice::One)
}

fn parse_through(text: &str) -> Result<VerifyServer, String> {
    VerifyServer::new("proxysql", text)
}

/// A schema name is written into statements, so only plain names are taken.
fn parse_schema(text: &str) -> Result<String, String> {
    let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !plain || text.is_empty() || text.len() > 64 {
        return Err("only letters, digits and _ (at most 64) are taken".into());
    }
    Ok(text.into())
}
