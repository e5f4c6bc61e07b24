//! Fences under load: few questions to the source, however many ask.
//!
//! `cargo bench --bench fences`. Sixty-four sessions report commits without a
//! GTID, so that each report needs to know what the source has executed.

#[path = "../integration/harness/mod.rs"]
mod harness;
#[path = "support/real.rs"]
mod real;
mod support;

use std::sync::atomic::Ordering;
use std::time::Duration;

use causeway::router::{Router, Write};
use harness::{Topology, TopologySpec};
use support::{Mode, judge, say, time};

const SPAN: Duration = Duration::from_secs(5);
/// `fences_per_second_max`, as configured unless somebody asks for more.
const PER_SECOND_MAX: f64 = 1000.0;

fn main() -> anyhow::Result<()> {
    match Mode::of("fences") {
        None => return Ok(()),
        Some(Mode::Test) => {
            say("fences", "needs MySQL servers: cargo bench --bench fences");
            return Ok(());
        }
        Some(Mode::Measure) => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let topology = Topology::start(TopologySpec::new(1)).await?;
        let (router, _) = real::router(&topology, "preferred").await?;
        for sessions in [1, 8, 64, 512] {
            load(&router, sessions).await?;
        }
        router.stop().await;
        Ok(())
    })
}

async fn load(router: &Router, sessions: u32) -> anyhow::Result<()> {
    let (start, before) = (time::now(), counts(router));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..sessions {
        let router = router.clone();
        tasks.spawn(async move { write(&router, number).await });
    }
    let mut slowest = Duration::ZERO;
    while let Some(p99) = tasks.join_next().await {
        slowest = slowest.max(p99??);
    }
    let (seconds, after) = (start.elapsed().as_secs_f64(), counts(router));
    let (requests, queries) = (after.0 - before.0, after.1 - before.1);
    let rate = queries as f64 / seconds;
    let figures = format!(
        "{rate:.0} queries/s for {:.0} fenced writes/s, {:.1} writes per query, worst session's p99 {slowest:?}",
        requests as f64 / seconds,
        requests as f64 / queries as f64
    );
    judge(
        &format!("fences/{sessions} at once"),
        rate <= 1.02 * PER_SECOND_MAX,
        figures,
        "1000 queries/s",
    );
    Ok(())
}

/// Fenced writes of one session; the 99th percentile of their times.
async fn write(router: &Router, number: u32) -> anyhow::Result<Duration> {
    let (name, start) = (format!("session:{number}"), time::now());
    let mut times = time::Times::new();
    while start.elapsed() < SPAN {
        let asked = time::now();
        router
            .wrote(&Write {
                session: Some(&name),
                gtid: None,
            })
            .await?;
        times.add(asked.elapsed());
    }
    Ok(times.p99())
}

/// Requests for a fence on the source, and queries that answered them.
fn counts(router: &Router) -> (u64, u64) {
    let source = router.view().source().map(|source| source.ix);
    let stats = router.hub().stats(source.expect("the source is known"));
    let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    (read(&stats.fence_requests), read(&stats.fence_queries))
}
