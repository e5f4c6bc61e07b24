//! One session of the traffic: a closed loop of a write and its reads.

use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio_util::sync::CancellationToken;

use super::args::VerifyServer;
use super::checker::{KeyId, Read, SessionId, Version, Write, WriteOutcome};
use super::chooser::{Choice, Chooser, Surroundings};
use super::reader::Reader;
use super::recorder::Recorder;
use super::scratch::Table;
use super::topology::TopologyWatch;
use super::writer::Writer;

/// After an error, a session waits this long: a broken deployment is not to be
/// hammered.
const ERROR_PAUSE: Duration = Duration::from_millis(50);
/// A session reads the rows of this many neighbours, again and again: monotonic
/// reads only show on a row that was read before.
const NEIGHBOURS: u32 = 8;

/// Of how many reads through ProxySQL one is followed by the question of who
/// answers: it costs more than the read.
const ASK_WHO_EACH: u32 = 16;

/// How often a quiet session writes.
const QUIET_WRITE_EACH_US: u64 = 5_000_000;

/// What all sessions of a round share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) recorder: Arc<Recorder>,
    pub(super) topology: Arc<TopologyWatch>,
    /// ProxySQL, when the traffic goes through it.
    pub(super) through: Option<VerifyServer>,
    pub(super) table: Arc<Table>,
    pub(super) stop: CancellationToken,
    pub(super) clients: u32,
    pub(super) reads_per_write: u32,
    pub(super) pause: Duration,
}

impl Shared {
    /// Where writes go now.
    fn writer(&self) -> VerifyServer {
        let through = self.through.clone();
        through.unwrap_or_else(|| self.topology.current().source.clone())
    }
}

/// What a session knows of its own row.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OwnRow {
    /// The last version acknowledged.
    pub(super) acknowledged: Version,
    /// The last version begun.
    pub(super) begun: Version,
}

/// One session.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) id: SessionId,
    pub(super) row: OwnRow,
    pub(super) writer: Writer,
    pub(super) reader: Reader,
    pub(super) chooser: Chooser,
    pub(super) rng: StdRng,
    /// For a session that writes seldom: when its next write is due.
    pub(super) quiet_until_us: Option<u64>,
    /// Reads through ProxySQL so far.
    pub(super) reads_through: u32,
    pub(super) shared: Arc<Shared>,
}

impl Client {
    /// The random choices of one session: the same for the same seed.
    pub(super) fn rng(seed: u64, id: SessionId) -> StdRng {
        StdRng::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(id))
    }

    /// Cycles until the round is over. Returns what is known of the own row.
    pub(super) async fn run(mut self) -> OwnRow {
        let stop = self.shared.stop.clone();
        while !stop.is_cancelled() {
            let complete = self.cycle().await;
            if complete {
                self.shared.recorder.end_cycle();
            }
            let pause = if complete {
                self.shared.pause
            } else {
                ERROR_PAUSE
            };
            if !pause.is_zero() {
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = stop.cancelled() => {}
                }
            }
        }
        self.row
    }

    /// One write, then the own row, another's, and further ones of either kind.
    /// Returns whether all of it worked.
    async fn cycle(&mut self) -> bool {
        let mut complete = !self.is_write_due() || self.write().await;
        for number in 0..self.shared.reads_per_write {
            if self.shared.stop.is_cancelled() {
                return false;
            }
            let key = match number {
                0 => self.id,
                1 => self.neighbour(),
                _ if self.rng.random_bool(0.5) => self.id,
                _ => self.neighbour(),
            };
            complete &= self.read(key).await;
        }
        complete
    }

    /// Whether this cycle has a write: always, but for quiet sessions.
    fn is_write_due(&mut self) -> bool {
        let Some(until_us) = &mut self.quiet_until_us else {
            return true;
        };
        let now_us = self.shared.recorder.now_us();
        let due = now_us >= *until_us;
        if due {
            *until_us = now_us + QUIET_WRITE_EACH_US;
        }
        due
    }

    /// Another session's row, out of the nearest few.
    fn neighbour(&mut self) -> KeyId {
        let others = (self.shared.clients - 1).min(NEIGHBOURS);
        if others == 0 {
            return self.id;
        }
        (self.id + self.rng.random_range(1..=others)) % self.shared.clients
    }

    async fn write(&mut self) -> bool {
        let shared = self.shared.clone();
        self.row.begun += 1;
        let statement = shared.table.update(self.id, self.row.begun);
        let source = shared.writer();
        let start_us = shared.recorder.begin_write(self.id, self.row.begun);
        let result = self.writer.write(&source, statement).await;
        let (outcome, took) = match &result {
            Ok(acknowledged) => (WriteOutcome::Ok, Some(acknowledged.took)),
            Err(error) => (WriteOutcome::Unknown(error.to_string()), None),
        };
        let end_us = shared
            .recorder
            .end_write(self.own_write(start_us, outcome), took);
        match result {
            Ok(acknowledged) => {
                self.row.acknowledged = self.row.begun;
                let told = self.chooser.wrote(acknowledged.gtid, end_us).await;
                told.inspect_err(|error| shared.recorder.error(error))
                    .is_ok()
            }
            Err(error) => {
                shared.recorder.error(&error.to_string());
                shared.topology.refresh().await;
                false
            }
        }
    }

    fn own_write(&self, start_us: u64, outcome: WriteOutcome) -> Write {
        Write {
            session: self.id,
            key: self.id,
            version: self.row.begun,
            start_us,
            end_us: start_us,
            outcome,
        }
    }

    async fn read(&mut self, key: KeyId) -> bool {
        let recorder = self.shared.recorder.clone();
        let start_us = recorder.now_us();
        match self.route_and_read(key, start_us).await {
            Ok((choice, seen)) => {
                let read = Read {
                    session: self.id,
                    key,
                    seen,
                    start_us,
                    end_us: start_us,
                    server: Arc::from(choice.server.name.as_str()),
                    promise: choice.promise,
                    degraded: choice.degraded,
                };
                recorder.end_read(read, &choice.routing);
                if choice.routing.off_source.is_none() {
                    self.ask_who(&choice.server, choice.comment.as_deref())
                        .await;
                }
                true
            }
            Err(error) => {
                recorder.error(&error);
                // As long as one cannot read, trying again at once is of no use.
                tokio::time::sleep(ERROR_PAUSE).await;
                false
            }
        }
    }

    async fn route_and_read(
        &mut self,
        key: KeyId,
        now_us: u64,
    ) -> Result<(Choice, Option<Version>), String> {
        let topology = self.shared.topology.current();
        let around = Surroundings {
            topology: &topology,
            reader: &mut self.reader,
            rng: &mut self.rng,
            recorder: &self.shared.recorder,
            now_us,
        };
        let choice = self.chooser.choose(around).await?;
        let select = self.shared.table.select(key);
        let query = match &choice.comment {
            Some(comment) => format!("{comment} {select}"),
            None => select,
        };
        let seen = self.reader.read(&choice.server, &query).await?;
        Ok((choice, seen))
    }

    /// Now and then, outside of what is measured: who answers such a read?
    async fn ask_who(&mut self, proxy: &VerifyServer, comment: Option<&str>) {
        self.reads_through = self.reads_through.wrapping_add(1);
        if self.reads_through % ASK_WHO_EACH != 1 {
            return;
        }
        let comment = comment.unwrap_or_default();
        match self.reader.is_replica(proxy, comment).await {
            Ok(replica) => self.shared.recorder.located(replica),
            Err(error) => self.shared.recorder.error(&error),
        }
    }
}
