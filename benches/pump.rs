//! What watching costs: Causeway's processor time and the source's throughput.
//!
//! `cargo bench --bench pump`. `causeway serve` runs as a process of its own
//! over a real source and two replicas, which for the sake of speed do not sync
//! their logs. First 2,000 commits per second are paced out to eight writers,
//! then eight writers go as fast as they can with and without Causeway, in
//! turns. Servers, writers and Causeway share this machine's cores, so what
//! Causeway uses is missing from the servers; a deployment with a core to spare
//! does better.

#[path = "../integration/harness/mod.rs"]
mod harness;
#[path = "support/real.rs"]
mod real;
mod support;
#[path = "support/writers.rs"]
mod writers;

use std::time::Duration;

use anyhow::Context as _;
use harness::{Topology, TopologySpec};
use support::http::{BlockingClient, post};
use support::process::{Causeway, cpu_time};
use support::{Mode, judge, median, say, time};
use writers::Writers;

const COMMITS_PER_SECOND: f64 = 2000.0;
const CPU_LIMIT: f64 = 0.25;
const PACED: Duration = Duration::from_secs(10);
const UNPACED: Duration = Duration::from_secs(4);
const ROUNDS: usize = 7;
const READ_INTERVAL: Duration = Duration::from_millis(5);

fn main() -> anyhow::Result<()> {
    match Mode::of("pump") {
        None => return Ok(()),
        Some(Mode::Test) => {
            say("pump", "needs MySQL servers: cargo bench --bench pump");
            return Ok(());
        }
        Some(Mode::Measure) => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let unsynced = [
        "sync_binlog=0",
        "innodb_flush_log_at_trx_commit=0",
        "innodb_doublewrite=OFF",
    ];
    let spec = unsynced
        .iter()
        .fold(TopologySpec::new(2), |spec, option| spec.option(option));
    let topology = runtime.block_on(Topology::start(spec))?;
    runtime.block_on(topology.source().execute(writers::TABLE))?;
    for reads in [false, true] {
        paced(&topology, reads)?;
    }
    unpaced(&topology)
}

/// Causeway's processor time while commits come at a fixed pace.
fn paced(topology: &Topology, reads: bool) -> anyhow::Result<()> {
    let causeway = Causeway::start(&real::servers(topology))?;
    let writers = Writers::start(topology.source(), Some(COMMITS_PER_SECOND))?;
    std::thread::sleep(Duration::from_secs(1));
    let (start, used, committed) = (time::now(), causeway.cpu_time()?, writers.committed());
    let read = if reads {
        read_for(&causeway, &writers, PACED)?
    } else {
        sleep_for(PACED)
    };
    let seconds = start.elapsed().as_secs_f64();
    let share = (causeway.cpu_time()? - used).as_secs_f64() / seconds;
    let rate = (writers.committed() - committed) as f64 / seconds;
    writers.stop()?;
    let figures = format!(
        "{:.1} % of a core for 3 servers at {rate:.0} commits/s and {:.0} routed reads/s",
        100.0 * share,
        read as f64 / seconds
    );
    judge(
        if reads {
            "pump/cpu with reads"
        } else {
            "pump/cpu"
        },
        share <= CPU_LIMIT,
        figures,
        "25 %",
    );
    Ok(())
}

fn sleep_for(span: Duration) -> u64 {
    std::thread::sleep(span);
    0
}

/// Routes reads of the newest commit; how many.
fn read_for(causeway: &Causeway, writers: &Writers, span: Duration) -> anyhow::Result<u64> {
    let (start, mut client) = (time::now(), BlockingClient::connect(causeway.address)?);
    let mut reads = 0;
    while start.elapsed() < span {
        let token = writers.newest();
        client.ask(&post("/v1/route", &format!("{{\"token\":{token:?}}}")))?;
        reads += 1;
        let next = READ_INTERVAL * u32::try_from(reads).context("a few thousand")?;
        std::thread::sleep(next.saturating_sub(start.elapsed()));
    }
    Ok(reads)
}

/// The source's throughput with Causeway in relation to that without.
fn unpaced(topology: &Topology) -> anyhow::Result<()> {
    let (mut ratios, mut alone, mut costs) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Neither always goes first.
        let (first, second) = (
            throughput(topology, round % 2 == 0)?,
            throughput(topology, round % 2 == 1)?,
        );
        let (with, without) = if round % 2 == 0 {
            (first, second)
        } else {
            (second, first)
        };
        ratios.push(with.rate / without.rate);
        costs.push(with.source_cpu / without.source_cpu);
        alone.push(without.rate);
    }
    let middle = median(alone.clone());
    let noise = median(
        alone
            .iter()
            .map(|rate| (rate / middle - 1.0).abs())
            .collect(),
    );
    let ratio = median(ratios);
    let figures = format!(
        "{ratio:.3} of {middle:.0} commits/s alone, ±{:.1} % from round to round; source's processor time per commit {:.3}×",
        100.0 * noise,
        median(costs)
    );
    judge(
        "pump/throughput",
        ratio >= 1.0 - noise.max(0.02),
        figures,
        "within the noise",
    );
    Ok(())
}

struct Throughput {
    rate: f64,
    /// Seconds of the source's processor time per commit.
    source_cpu: f64,
}

fn throughput(topology: &Topology, watched: bool) -> anyhow::Result<Throughput> {
    let causeway = watched
        .then(|| Causeway::start(&real::servers(topology)))
        .transpose()?;
    let writers = Writers::start(topology.source(), None)?;
    std::thread::sleep(Duration::from_millis(500));
    let source = topology.source().pid();
    let (start, used, committed) = (time::now(), cpu_time(source)?, writers.committed());
    std::thread::sleep(UNPACED);
    let commits = (writers.committed() - committed) as f64;
    let (seconds, used) = (start.elapsed().as_secs_f64(), cpu_time(source)? - used);
    writers.stop()?;
    drop(causeway);
    settle(topology)?;
    Ok(Throughput {
        rate: commits / seconds,
        source_cpu: used.as_secs_f64() / commits,
    })
}

/// Lets the replicas catch up, so that every round begins alike.
fn settle(topology: &Topology) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(topology.wait_caught_up())
}
