//! The servers as they really are, and what Causeway gets to hear of them.

use std::sync::Arc;

use super::{Flaw, Happening, Simulation};
use crate::fleet::testing::{alone, fault, identity, ix, replica_of, sid, uuid};
use crate::fleet::{Event, Life, Sample};
use crate::gtid::{Gtid, GtidSet};
use crate::moment::Moment;

/// One server's true state.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// What a read shows.
    pub(super) visible: GtidSet,
    /// `gtid_executed`: follows `visible`.
    pub(super) executed: GtidSet,
    /// `gtid_owned`: precedes `visible`.
    pub(super) owned: GtidSet,
    /// Counts the resets.
    pub(super) era: u32,
    /// The life that a reset ended, until Causeway notices.
    pub(super) ended: Option<Life>,
    stalled_until: u64,
    lost_at: u64,
}

/// What a question is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Pump,
    /// Another connection, whose answers overlap with the pump's.
    Barrier,
    /// The sweeper's question about what is owned.
    Probe,
    /// For a request, in its present turn.
    Fence(u64, u32),
    Locate(u64, u32, Life),
}

#[derive(Clone, Debug)]
pub(super) enum Change {
    /// A replica receives a transaction, in an era of its.
    Received(usize, u64, u32),
    /// A server begins to commit it.
    Owned(usize, u64, u32),
    Visible(usize, u64, u32),
    Executed(usize, u64, u32),
    Ask(usize, Purpose),
    Read(usize, u64, Purpose),
    Answered(usize, Box<Sample>, Purpose),
    Lost(usize),
    Back(usize),
    Reset(usize),
    Stall(usize),
    Sweep,
}

impl Simulation {
    pub(super) fn begin_network(&mut self) {
        for server in 0..self.nodes.len() {
            let delay = self.between(0, 50_000);
            self.change(delay, Change::Back(server));
            let delay = self.between(200_000, 4_000_000);
            self.change(delay, Change::Lost(server));
            let delay = self.between(0, 30_000);
            self.change(delay, Change::Ask(server, Purpose::Barrier));
        }
        for replica in 1..self.nodes.len() {
            let delay = self.between(500_000, 20_000_000);
            self.change(delay, Change::Reset(replica));
            let delay = self.between(200_000, 8_000_000);
            self.change(delay, Change::Stall(replica));
        }
        self.change(100_000, Change::Sweep);
    }

    pub(super) fn change(&mut self, delay: u64, change: Change) {
        self.later(delay, Happening::Network(change));
    }

    pub(super) fn network(&mut self, change: Change) {
        match change {
            Change::Received(replica, gno, era) => self.received(replica, gno, era),
            Change::Owned(server, gno, era) => self.owned(server, gno, era),
            Change::Visible(server, gno, era) => self.visible(server, gno, era),
            Change::Executed(server, gno, era) => self.executed(server, gno, era),
            Change::Ask(server, purpose) => self.ask(server, purpose),
            Change::Read(server, asked, purpose) => self.read_state(server, asked, purpose),
            Change::Answered(server, sample, purpose) => self.answered(server, *sample, purpose),
            Change::Lost(server) => self.lost(server),
            Change::Back(server) => self.back(server),
            Change::Reset(replica) => self.reset(replica),
            Change::Stall(replica) => self.stall(replica),
            Change::Sweep => self.sweep(),
        }
    }

    /// A new transaction enters the source's binary log, from where replicas may
    /// have it before the source shows it.
    pub(super) fn write(&mut self) -> u64 {
        self.written += 1;
        let gno = self.written;
        self.owned(0, gno, 0);
        for replica in 1..self.nodes.len() {
            let era = self.nodes[replica].era;
            let delay = self.delay(3_000, 60_000);
            self.change(delay, Change::Received(replica, gno, era));
        }
        gno
    }

    fn received(&mut self, replica: usize, gno: u64, era: u32) {
        let stalled = self.nodes[replica].stalled_until.saturating_sub(self.now);
        let delay = stalled + self.delay(4_000, 150_000);
        self.change(delay, Change::Owned(replica, gno, era));
    }

    fn owned(&mut self, server: usize, gno: u64, era: u32) {
        if self.nodes[server].era == era {
            self.nodes[server].owned.insert(gtid(gno));
            let delay = self.delay(2_000, 200_000);
            self.change(delay, Change::Visible(server, gno, era));
        }
    }

    fn visible(&mut self, server: usize, gno: u64, era: u32) {
        if self.nodes[server].era == era {
            self.nodes[server].visible.insert(gtid(gno));
            let delay = self.delay(2_000, 200_000);
            self.change(delay, Change::Executed(server, gno, era));
        }
    }

    fn executed(&mut self, server: usize, gno: u64, era: u32) {
        let node = &mut self.nodes[server];
        if node.era != era {
            return;
        }
        node.executed.insert(gtid(gno));
        node.owned = node.owned.subtract(&GtidSet::from(gtid(gno)));
        if server == 0 {
            self.executed_at.insert(gno, self.now);
            self.commit_returns(gno);
        }
    }

    pub(super) fn ask(&mut self, server: usize, purpose: Purpose) {
        let asked = self.now;
        let travel = match purpose {
            Purpose::Pump | Purpose::Barrier => self.delay(1_000, 60_000),
            _ => self.delay(500, 20_000),
        };
        self.change(travel, Change::Read(server, asked, purpose));
    }

    fn read_state(&mut self, server: usize, asked: u64, purpose: Purpose) {
        let node = &self.nodes[server];
        let reports_owned = !matches!(purpose, Purpose::Pump | Purpose::Barrier);
        let mut executed = node.executed.clone();
        match self.setting.flaw {
            Some(Flaw::EventsAsEvidence) => executed.union_with(&node.owned),
            Some(Flaw::LargestNumber) => fill(&mut executed),
            _ => {}
        }
        let sample = Sample {
            server: uuid(server),
            set: Arc::new(executed),
            owned: reports_owned.then(|| Arc::new(node.owned.clone())),
            asked: Moment::from_micros(asked),
            answered: Moment::default(),
            read_only: Some(server != 0),
        };
        let travel = self.delay(800, 40_000);
        self.change(travel, Change::Answered(server, Box::new(sample), purpose));
    }

    fn answered(&mut self, server: usize, mut sample: Sample, purpose: Purpose) {
        sample.answered = self.moment();
        let (set, owned) = (Arc::clone(&sample.set), sample.owned.clone());
        let broken = sample.asked.micros() < self.nodes[server].lost_at;
        self.happened(server, Event::Executed(sample));
        match purpose {
            Purpose::Pump if broken => {}
            Purpose::Pump | Purpose::Barrier => {
                let pause = self.delay(8_000, 90_000);
                self.change(pause, Change::Ask(server, purpose));
            }
            Purpose::Probe => {
                self.last_probe = owned.map(|owned| (GtidSet::clone(&owned), GtidSet::clone(&set)));
            }
            Purpose::Fence(..) | Purpose::Locate(..) if broken => {}
            Purpose::Fence(request, turn) => {
                let owned = owned.expect("a fence asks what is owned");
                self.fenced(request, turn, server, &owned, set);
            }
            Purpose::Locate(request, turn, life) => {
                let owned = owned.expect("a locate asks what is owned");
                self.located(request, turn, server, life, &owned, set);
            }
        }
    }

    fn lost(&mut self, server: usize) {
        self.nodes[server].lost_at = self.now;
        self.tally.losses += 1;
        self.happened(server, Event::Lost(fault()));
        let outage = self.delay(60_000, 2_500_000);
        self.change(outage, Change::Back(server));
        let next = self.between(300_000, 5_000_000);
        self.change(outage + next, Change::Lost(server));
    }

    fn back(&mut self, server: usize) {
        let status = if server == 0 {
            alone(false)
        } else {
            replica_of(0)
        };
        let polled = Event::Polled {
            server: uuid(server),
            status,
            asked: self.moment(),
        };
        self.happened(server, Event::Identified(identity(server)));
        self.happened(server, polled);
        self.ask(server, Purpose::Pump);
    }

    /// `RESET`, or a rebuild: everything is gone, and applied again from the
    /// beginning. Often nobody's connection breaks by it.
    fn reset(&mut self, replica: usize) {
        self.tally.resets += 1;
        let life = self.lab.server(replica).life;
        let node = &mut self.nodes[replica];
        *node = Node {
            era: node.era + 1,
            ended: Some(life),
            stalled_until: node.stalled_until,
            lost_at: node.lost_at,
            ..Node::default()
        };
        let era = node.era;
        for gno in 1..=self.written {
            let delay = self.between(1_000, 400_000);
            self.change(delay, Change::Received(replica, gno, era));
        }
        if self.chance(0.5) {
            self.lost(replica);
        }
        let next = self.between(2_000_000, 20_000_000);
        self.change(next, Change::Reset(replica));
    }

    fn stall(&mut self, replica: usize) {
        let stall = if self.chance(0.2) {
            self.between(2_000_000, 8_000_000)
        } else {
            self.between(0, 300_000)
        };
        self.nodes[replica].stalled_until = self.now + stall;
        let next = self.between(500_000, 6_000_000);
        self.change(stall + next, Change::Stall(replica));
    }

    fn sweep(&mut self) {
        self.ask(0, Purpose::Probe);
        let pressed = self.sessions.under_pressure();
        let leave_out = pressed.then(|| std::time::Duration::from_secs(1));
        let now = self.moment();
        self.lab.fleet.raise_floor(now, leave_out);
        for shard in 0..self.sessions.shards() {
            self.sessions.sweep(shard, self.lab.fleet.floor(), now);
        }
        self.count_sessions();
        let next = self.between(20_000, 120_000);
        self.change(next, Change::Sweep);
    }

    /// Something about a server reaches Causeway.
    fn happened(&mut self, server: usize, event: Event) {
        let now = self.moment();
        if self.lab.fleet.apply(ix(server), event, now) {
            self.fleet_changed();
        }
    }
}

pub(super) fn gtid(gno: u64) -> Gtid {
    Gtid { sid: sid(0), gno }
}

/// Everything up to the largest number.
fn fill(set: &mut GtidSet) {
    let last = set.intervals(&sid(0)).and_then(|own| own.iter().last());
    if let Some((_, end)) = last {
        set.insert_range(sid(0), 1, end);
    }
}
