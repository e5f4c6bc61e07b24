//! The demo behind `integration/demo`: real servers, real lag, one table.
//!
//! Uses Causeway as a user does, by its program and its configuration file, and
//! must not know the library.

mod demo_causeway;
mod demo_lag;
mod demo_proxysql;
mod demo_traffic;
#[path = "harness/mod.rs"]
mod harness;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;

use demo_causeway::Causeway;
use demo_lag::Lag;
use demo_traffic::Traffic;
use harness::{ProxySql, Topology, TopologySpec};

/// The traffic's login: everything on its scratch schema and nothing else.
const USER: &str = "verify";
const PASSWORD: &str = "verify-pw";
/// Each policy meets the lag in several slices of time.
const ROUNDS: u32 = 2;
const POLICIES: u64 = 5;

/// Options; described in `integration/demo --help`.
#[derive(Debug, clap::Parser)]
struct Options {
    /// Seconds of traffic in all
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(10..=3_600))]
    seconds: u64,
    /// Number of replicas
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=8))]
    replicas: u8,
    /// Sessions that write and read
    #[arg(long, default_value_t = 8)]
    clients: u32,
    /// How many of them write seldom
    #[arg(long, default_value_t = 4)]
    quiet: u32,
    /// Think time of each session after a cycle
    #[arg(long, default_value = "20ms")]
    pause: String,
    /// As in `causeway verify`
    #[arg(long, default_value = "all")]
    policies: String,
    /// Put ProxySQL before the servers, and compare ways of reading through it
    #[arg(long)]
    proxysql: bool,
    /// Leave everything running at the end
    #[arg(long)]
    keep: bool,
}

impl Options {
    /// Behind ProxySQL it keeps the hostgroups that any policy may read from.
    fn needs_causeway(&self) -> bool {
        let named = self.policies.contains("all") || self.policies.contains("causeway");
        named || self.proxysql
    }

    /// For `causeway verify`.
    fn policies(&self) -> &str {
        if self.proxysql && self.policies == "all" {
            return demo_proxysql::POLICIES;
        }
        &self.policies
    }

    fn seconds_each(&self) -> u64 {
        let listed = self.policies().split(',').count();
        let policies = if self.policies() == "all" {
            POLICIES
        } else {
            listed as u64
        };
        (self.seconds / policies).max(2)
    }
}

/// Everything that runs; dropping it ends all of it, in this order.
#[derive(Debug)]
struct Stage {
    _lag: Lag,
    causeway: Option<Causeway>,
    proxysql: Option<ProxySql>,
    topology: Topology,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    if options.proxysql {
        demo_proxysql::ensure_found()?;
    }
    let stage = tokio::select! {
        stage = set_up(&options) => stage?,
        _ = tokio::signal::ctrl_c() => {
            say("stopped while setting up, cleaned up");
            return Ok(ExitCode::from(130));
        }
    };
    let code = demo_traffic::run(&traffic(&options, &stage)?).await;
    match (&code, options.keep) {
        (Ok(_), true) => keep(&stage).await,
        (Ok(_), false) if options.proxysql => say(NEXT_PROXYSQL),
        (Ok(_), false) => say(NEXT),
        (Err(_), _) => {}
    }
    say("cleaning up");
    drop(stage);
    code
}

async fn set_up(options: &Options) -> anyhow::Result<Stage> {
    let replicas = usize::from(options.replicas);
    say(&format!(
        "1/4 starting one MySQL source and {replicas} replicas"
    ));
    let topology = Topology::start(spec(replicas)).await?;
    topology.source().execute_all(&login()).await?;
    let proxysql = proxysql(options, &topology).await?;
    let causeway = causeway(options, &topology, proxysql.as_ref()).await?;
    say("3/4 making the replicas lag: a big update every few seconds, small ones in between");
    let lag = Lag::start(&topology).await?;
    Ok(Stage {
        _lag: lag,
        causeway,
        proxysql,
        topology,
    })
}

async fn proxysql(options: &Options, topology: &Topology) -> anyhow::Result<Option<ProxySql>> {
    if !options.proxysql {
        return Ok(None);
    }
    say("2/4 starting ProxySQL, with a writer and a reader hostgroup");
    Ok(Some(demo_proxysql::start(topology).await?))
}

async fn causeway(
    options: &Options,
    topology: &Topology,
    proxysql: Option<&ProxySql>,
) -> anyhow::Result<Option<Causeway>> {
    if !options.needs_causeway() {
        say("2/4 Causeway is not among the policies, and is not started");
        return Ok(None);
    }
    say("2/4 starting Causeway, which finds out who the source is");
    let more = proxysql.map(demo_proxysql::section).unwrap_or_default();
    let causeway = Causeway::start(topology, &more).await?;
    if let Some(proxysql) = proxysql {
        demo_proxysql::wait_in_force(proxysql).await?;
    }
    Ok(Some(causeway))
}

/// More memory than the tests need, since 60,000 wide rows change at once. The
/// replicas do not sync each commit, as is common, so that they keep up while
/// nothing big comes along.
fn spec(replicas: usize) -> TopologySpec {
    let mut spec = TopologySpec::new(replicas)
        .option("innodb_buffer_pool_size=128M")
        .option("innodb_redo_log_capacity=256M");
    for replica in 1..=replicas {
        spec = spec.option_of(replica, "sync_binlog=0");
        spec = spec.option_of(replica, "innodb_flush_log_at_trx_commit=2");
    }
    spec
}

fn login() -> [&'static str; 2] {
    [
        "CREATE USER verify IDENTIFIED BY 'verify-pw'",
        "GRANT ALL ON causeway_verify.* TO verify",
    ]
}

/// `causeway verify` as a user would call it.
fn traffic(options: &Options, stage: &Stage) -> anyhow::Result<Traffic> {
    let seconds = options.seconds_each();
    say(&format!(
        "4/4 traffic: {seconds} s for each policy, in {ROUNDS} turns"
    ));
    let url_or_servers = match &stage.causeway {
        Some(causeway) => ["--url".to_owned(), causeway.url.clone()],
        None => ["--servers".to_owned(), servers(&stage.topology)],
    };
    let words = format!(
        "verify --user {USER} --policies {} --clients {} --quiet {} --pause {} --seconds {seconds} --rounds {ROUNDS}",
        options.policies(),
        options.clients,
        options.quiet,
        options.pause
    );
    let through = stage.proxysql.as_ref().map(ProxySql::traffic_address);
    let through = through.map(|address| format!("--through={address}"));
    let words = words.split(' ').map(str::to_owned);
    Ok(Traffic {
        program: demo_causeway::program()?,
        arguments: words.chain(url_or_servers).chain(through).collect(),
        password: PASSWORD,
        limit: Duration::from_secs(options.seconds * 2 + 120),
    })
}

fn servers(topology: &Topology) -> String {
    let servers = topology.servers().iter();
    let servers = servers.map(|server| format!("{}={}", server.name(), server.address()));
    servers.collect::<Vec<_>>().join(",")
}

const NEXT: &str = "\
what to try next:
  integration/demo --keep                leave all of it running, and say how to talk to it
  integration/demo --replicas 4          more replicas
  integration/demo --proxysql            the same through ProxySQL, with hints and a tier
  causeway check --config F              is your own MySQL ready for Causeway?
  causeway verify --policies random,sticky:2s --servers db1=HOST:PORT,db2=HOST:PORT
                                         how stale are your own replicas? (no Causeway needed)
  README.md                              three ways to wire an application";

const NEXT_PROXYSQL: &str = "\
what to try next:
  integration/demo --proxysql --keep     leave all of it running, and say how to talk to it
  integration/demo                       without ProxySQL: five ways of routing
  causeway verify --policies rules --through HOST:PORT --servers db1=HOST:PORT,db2=HOST:PORT
                                         how stale are reads through your own ProxySQL?
  README.md                              \"Beside your ProxySQL in 10 minutes\"";

/// Says how to talk to what runs, and waits for Enter or Ctrl-C.
async fn keep(stage: &Stage) {
    let topology = &stage.topology;
    say("all of it goes on running, with its lag:");
    for server in topology.servers() {
        let (name, address) = (server.name(), server.address());
        let socket = server.socket.display();
        println!("  {name}  {address}  user {USER}, password {PASSWORD}; as root: socket {socket}");
    }
    if let Some(causeway) = &stage.causeway {
        causeway.print_how_to();
        if let Some(proxysql) = &stage.proxysql {
            demo_proxysql::print_how_to(proxysql, &causeway.url);
        }
    }
    let replica = topology.replica(0);
    let (name, socket) = (replica.name(), replica.socket.display());
    println!("  stall {name}: mysql -uroot -S {socket} -e 'STOP REPLICA SQL_THREAD'");
    say("Enter or Ctrl-C ends it");
    tokio::select! {
        () = enter() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

/// Waits for Enter, on a thread that may be left waiting. Without anyone to
/// press it, waits forever.
async fn enter() {
    let (pressed, enter) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        if std::io::stdin()
            .read_line(&mut String::new())
            .is_ok_and(|read| read > 0)
        {
            // Whoever waited may have been told by Ctrl-C to stop waiting.
            let _ = pressed.send(());
        } else {
            std::mem::forget(pressed);
        }
    });
    drop(enter.await);
}

fn say(text: &str) {
    eprintln!("demo: {text}");
}
