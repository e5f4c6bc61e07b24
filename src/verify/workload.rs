//! Runs the policies one after the other on the same traffic.
//!
//! Each round gives every policy a slice of its time, with new sessions, new
//! connections and a new history on the rows as they are.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::api::Api;
use super::args::{VerifyArgs, VerifyServer};
use super::causeway::CausewaySession;
use super::checker::{Limits, SessionId};
use super::chooser::Chooser;
use super::client::{Client, OwnRow, Shared};
use super::login::Login;
use super::policy::Policy;
use super::progress;
use super::reader::Reader;
use super::recorder::Recorder;
use super::run_clock::RunClock;
use super::scratch::Table;
use super::stats::PolicyStats;
use super::topology::TopologyWatch;
use super::writer::Writer;
use crate::clock;

/// A round shorter than this measures little more than its start.
const ROUND_MIN: Duration = Duration::from_millis(500);
/// Beyond the end of a round, how long the sessions may take to finish: longer
/// than any deadline of theirs.
const FINISH_MAX: Duration = Duration::from_secs(60);
/// What one operation can take at most, for the checker's memory.
const OPERATION_MAX_US: u64 = 60_000_000;

/// The checker keeps some ten lines of points for each session, of which each
/// may have this many divided by the sessions: together less than 100 MB.
const POINTS_TOTAL: usize = 100_000;
/// Fewer would check too loosely.
const POINTS_MIN: usize = 64;

/// Everything a run needs.
#[derive(Debug)]
pub(super) struct Workload<'a> {
    pub(super) args: &'a VerifyArgs,
    pub(super) login: Login,
    pub(super) api: Arc<Api>,
    pub(super) topology: Arc<TopologyWatch>,
    pub(super) table: Arc<Table>,
    /// Cancelled by Ctrl-C.
    pub(super) stop: CancellationToken,
    pub(super) clock: RunClock,
    /// Tells this run's sessions from those of any other.
    pub(super) run_id: u32,
}

impl Workload<'_> {
    /// Runs all rounds. What was measured before a stop is returned too.
    pub(super) async fn run(&self) -> anyhow::Result<Vec<(Policy, PolicyStats)>> {
        let mut results: Vec<_> = (self.args.policy_list().into_iter())
            .map(|policy| (policy, PolicyStats::default()))
            .collect();
        let mut rows = vec![OwnRow::default(); self.args.clients as usize];
        for round in 0..self.args.rounds {
            for (policy, stats) in &mut results {
                if self.stop.is_cancelled() {
                    break;
                }
                let before = std::mem::take(stats);
                *stats = self.round(*policy, round, before, &mut rows).await?;
            }
        }
        Ok(results)
    }

    /// One policy's slice of one round.
    async fn round(
        &self,
        policy: Policy,
        round: u32,
        stats: PolicyStats,
        rows: &mut [OwnRow],
    ) -> anyhow::Result<PolicyStats> {
        let recorder = Arc::new(Recorder::new(stats, self.limits(), self.clock));
        for (key, row) in (0..).zip(rows.iter()) {
            recorder.seed(key, row.acknowledged, row.begun);
        }
        let shared = self.shared(&recorder);
        let clients = self.clients(policy, round, &shared, rows)?;
        let clients = join_all(clients.into_iter().map(warm_up(self.read_from()))).await;

        let start = clock::now();
        let tasks: Vec<_> = clients.into_iter().map(|c| tokio::spawn(c.run())).collect();
        let total = self.slice();
        let name = self.name(policy, round);
        tokio::select! {
            () = progress::show(&name, &recorder, start, total) => {}
            () = self.stop.cancelled() => {}
        }
        shared.stop.cancel();
        let elapsed = clock::now().since(start);
        let finished = tokio::time::timeout(FINISH_MAX, join_all(tasks)).await;
        let finished = finished.context("a session did not end in time")?;
        for (row, result) in rows.iter_mut().zip(finished) {
            *row = result.context("a session failed")?;
        }
        Ok(recorder.finish(elapsed))
    }

    /// What reads connect to.
    fn read_from(&self) -> Vec<VerifyServer> {
        match &self.args.through {
            Some(proxy) => vec![proxy.clone()],
            None => self.topology.current().servers(),
        }
    }

    /// What the progress is called.
    fn name(&self, policy: Policy, round: u32) -> String {
        match self.args.rounds {
            1 => policy.to_string(),
            rounds => format!("{policy} {}/{rounds}", round + 1),
        }
    }

    /// The time of one policy in one round.
    fn slice(&self) -> Duration {
        (Duration::from_secs(self.args.seconds) / self.args.rounds).max(ROUND_MIN)
    }

    fn limits(&self) -> Limits {
        let limits = Limits::default();
        let bound_us = self
            .args
            .max_staleness_ms
            .unwrap_or(0)
            .saturating_mul(1_000);
        let needed_us = bound_us.saturating_mul(2).saturating_add(OPERATION_MAX_US);
        let share = POINTS_TOTAL / self.args.clients as usize;
        Limits {
            horizon_us: limits.horizon_us.max(needed_us),
            points_max: share.clamp(POINTS_MIN, limits.points_max),
            ..limits
        }
    }

    fn shared(&self, recorder: &Arc<Recorder>) -> Arc<Shared> {
        Arc::new(Shared {
            recorder: recorder.clone(),
            topology: self.topology.clone(),
            through: self.args.through.clone(),
            table: self.table.clone(),
            stop: self.stop.child_token(),
            clients: self.args.clients,
            reads_per_write: self.args.reads_per_write,
            pause: self.args.pause,
        })
    }

    fn clients(
        &self,
        policy: Policy,
        round: u32,
        shared: &Arc<Shared>,
        rows: &[OwnRow],
    ) -> anyhow::Result<Vec<Client>> {
        let with_id = (0..).zip(rows.iter().copied());
        with_id
            .map(|(id, row)| self.client(policy, round, shared, id, row))
            .collect()
    }

    fn client(
        &self,
        policy: Policy,
        round: u32,
        shared: &Arc<Shared>,
        id: SessionId,
        row: OwnRow,
    ) -> anyhow::Result<Client> {
        let session = format!("verify-{:08x}-{round}-{id}", self.run_id);
        let causeway = CausewaySession::new(self.args, self.api.clone(), session);
        Ok(Client {
            id,
            row,
            writer: Writer::start(self.login.clone(), &format!("verify-write-{id}"))?,
            reader: Reader::new(self.login.clone()),
            chooser: Chooser::new(policy, causeway, self.args.through.as_ref()),
            rng: Client::rng(self.args.seed, id),
            reads_through: 0,
            quiet_until_us: (id < self.args.quiet).then_some(0),
            shared: shared.clone(),
        })
    }
}

/// Connects a session to all these before the time starts.
fn warm_up(servers: Vec<VerifyServer>) -> impl Fn(Client) -> BoxedClient {
    move |mut client| {
        let servers = servers.clone();
        Box::pin(async move {
            client.reader.warm_up(&servers).await;
            client
        })
    }
}

type BoxedClient = std::pin::Pin<Box<dyn Future<Output = Client> + Send>>;
