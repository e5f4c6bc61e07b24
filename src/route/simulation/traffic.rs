//! Sessions that write and read, and the steps of their requests.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;

use super::network::{Change, Purpose, gtid};
use super::oracle::Owed;
use super::{Flaw, Happening, LIMITS, Simulation};
use crate::fleet::testing::ix;
use crate::fleet::{FleetView, Life, ServerIx};
use crate::gtid::GtidSet;
use crate::requirement::Requirement;
use crate::route::{Ask, Consistency, Decision, Fence, OnTimeout, Policy, Step, Waits, decide};
use crate::session::Kept;

/// One session, as its owner sees it.
#[derive(Debug, Default)]
pub(super) struct App {
    /// Commits that returned and were reported.
    pub(super) written: GtidSet,
    /// Shown by those of its reads that have ended, whatever their promise.
    pub(super) seen: GtidSet,
}

/// One request under way.
pub(super) struct Request {
    pub(super) app: usize,
    ask: Ask,
    /// Counts the steps; an answer to an earlier step is not heeded.
    turn: u32,
    waiting: Option<Waiting>,
    owed: Owed,
    sequential: bool,
}

enum Waiting {
    For(Waits),
    Fleet,
}

#[derive(Clone, Debug)]
pub(super) enum Act {
    Write(usize),
    /// A read begins; a sequential one begins the next when it has ended.
    Read(usize, bool),
    Deadline(u64, u32),
    /// The read reaches the server.
    Execute(Box<(usize, Decision, Owed, u32, bool)>),
    /// With whether later reads of the session must not go back behind it.
    Ended(usize, Box<GtidSet>, bool),
}

impl Simulation {
    pub(super) fn begin_traffic(&mut self) {
        for app in 0..self.apps.len() {
            let delay = self.between(0, 400_000);
            self.act(delay, Act::Write(app));
            let delay = self.between(0, 400_000);
            self.act(delay, Act::Read(app, true));
            if app % 2 == 0 {
                self.act(delay + 1_000, Act::Read(app, false));
            }
        }
    }

    fn act(&mut self, delay: u64, act: Act) {
        self.later(delay, Happening::Traffic(act));
    }

    pub(super) fn traffic(&mut self, act: Act) {
        match act {
            Act::Write(app) => self.app_writes(app),
            Act::Read(app, sequential) => self.app_reads(app, sequential),
            Act::Deadline(request, turn) => self.resume_if(request, turn),
            Act::Execute(read) => self.execute(*read),
            Act::Ended(app, shown, sequential) => self.ended(app, &shown, sequential),
        }
    }

    fn app_writes(&mut self, app: usize) {
        let gno = self.write();
        self.writing.push((gno, app));
        let pause = self.think();
        self.act(pause, Act::Write(app));
    }

    /// The commit returned, and the session's owner reports it.
    pub(super) fn commit_returns(&mut self, gno: u64) {
        self.committed.insert(gtid(gno));
        let Some(place) = self.writing.iter().position(|(of, _)| *of == gno) else {
            return;
        };
        let (_, app) = self.writing.swap_remove(place);
        let view = self.lab.view();
        let wrote = Requirement::above(&GtidSet::from(gtid(gno)), &view.floor.set);
        let source = view.source().and_then(|source| source.executed());
        let kept = self.sessions.write(
            self.sessions.key(&app.to_string()),
            &wrote,
            &view.floor,
            source.map(|set| &**set),
            self.moment(),
        );
        self.tally.dropped += u64::from(kept == Kept::Dropped);
        self.apps[app].written.insert(gtid(gno));
    }

    fn app_reads(&mut self, app: usize, sequential: bool) {
        let id = self.happenings;
        let policy = self.policy();
        let now = self.moment();
        let deadline = now.plus(Duration::from_micros(self.between(0, 60_000)));
        let ask = Ask {
            policy,
            session: Some(self.sessions.state(self.key(app), now)),
            deadline,
            hard_deadline: deadline.plus(Duration::from_millis(50)),
            session_staleness_max: LIMITS.staleness_max(),
            seed: self.random.random(),
            ..Ask::default()
        };
        let request = Request {
            app,
            ask,
            turn: 0,
            waiting: None,
            owed: self.owed(app, &policy),
            sequential,
        };
        self.requests.insert(id, request);
        self.resume(id);
        if !sequential {
            let pause = self.think();
            self.act(pause, Act::Read(app, false));
        }
    }

    fn policy(&mut self) -> Policy {
        let level = usize::try_from(self.between(0, 8)).expect("small");
        let consistency = *Consistency::ALL.get(level).unwrap_or(&Consistency::Session);
        let bound = Duration::from_micros(self.between(0, 300_000));
        let bounded = consistency == Consistency::Bounded || self.chance(0.1);
        Policy {
            consistency,
            max_staleness: bounded.then_some(bound),
            on_timeout: [OnTimeout::Source, OnTimeout::Stale, OnTimeout::Error]
                [usize::try_from(self.between(0, 2)).expect("small")],
            zone: 0,
        }
    }

    fn resume_if(&mut self, id: u64, turn: u32) {
        if self
            .requests
            .get(&id)
            .is_some_and(|request| request.turn == turn)
        {
            self.resume(id);
        }
    }

    /// Decides until the request has to wait for something.
    pub(super) fn resume(&mut self, id: u64) {
        let Some(mut request) = self.requests.remove(&id) else {
            return;
        };
        request.turn += 1;
        request.waiting = None;
        let view = self.lab.view();
        match decide(&view, &request.ask, self.moment()) {
            Step::Answer(decision) => return self.route_answered(&view, request, decision),
            Step::Fail(_) => {
                self.tally.failed += 1;
                return self.go_on(request.app, request.sequential);
            }
            step => self.carry_out(id, &mut request, &view, step),
        }
        self.requests.insert(id, request);
    }

    fn carry_out(&mut self, id: u64, request: &mut Request, view: &FleetView, step: Step) {
        let mut until = request.ask.hard_deadline;
        match step {
            Step::Fence => {
                self.tally.fenced += 1;
                self.ask_source(id, request.turn, view);
            }
            Step::Locate(life, server) => {
                self.tally.located += 1;
                self.ask(server.index(), Purpose::Locate(id, request.turn, life));
            }
            Step::Wait(waits) => {
                self.tally.waited += 1;
                request.ask.waited = true;
                if !waits.hard {
                    until = request.ask.deadline;
                }
                if waits.check_source {
                    self.ask_source(id, request.turn, view);
                }
                request.waiting = Some(Waiting::For(waits));
            }
            _ => {
                until = request.ask.deadline;
                request.waiting = Some(Waiting::Fleet);
            }
        }
        let left = until.since(self.moment());
        let left = u64::try_from(left.as_micros()).expect("short");
        assert!(left > 0, "a step was asked for that has no time left");
        self.act(left, Act::Deadline(id, request.turn));
    }

    fn ask_source(&mut self, id: u64, turn: u32, view: &FleetView) {
        if view.source().is_some() {
            self.change(0, Change::Ask(0, Purpose::Fence(id, turn)));
        }
    }

    /// The source's answer to a request.
    pub(super) fn fenced(
        &mut self,
        id: u64,
        turn: u32,
        server: usize,
        owned: &GtidSet,
        executed: Arc<GtidSet>,
    ) {
        let is_source = self.lab.view().source().map(|source| source.ix) == Some(ix(server));
        let old = self
            .last_probe
            .clone()
            .filter(|_| self.setting.flaw == Some(Flaw::OldFence));
        let Some(request) = self
            .requests
            .get_mut(&id)
            .filter(|request| request.turn == turn)
        else {
            return;
        };
        if is_source {
            let fence = match old {
                Some((owned, executed)) => Fence::new(&owned, Arc::new(executed)),
                None => Fence::new(owned, executed),
            };
            request.ask.fence = Some(Arc::new(fence));
        }
        if request.waiting.is_none() || request.ask.lost().is_some() {
            self.resume(id);
        }
    }

    /// The answer of a server that the session had read from.
    pub(super) fn located(
        &mut self,
        id: u64,
        turn: u32,
        server: usize,
        life: Life,
        owned: &GtidSet,
        executed: Arc<GtidSet>,
    ) {
        let same_life = self.lab.server(server).life == life;
        let blind = self.setting.flaw == Some(Flaw::LocateWithoutOwned);
        let Some(request) = self
            .requests
            .get_mut(&id)
            .filter(|request| request.turn == turn)
        else {
            return;
        };
        if same_life {
            let upper = if blind {
                executed
            } else {
                Fence::new(owned, executed).upper
            };
            request.ask.located.push((life, upper));
        }
        self.resume(id);
    }

    /// Wakes the requests for whom the news may be what they wait for.
    pub(super) fn fleet_changed(&mut self) {
        let view = self.lab.view();
        let met = |(server, need): &(ServerIx, Requirement)| view.meets(view.server(*server), need);
        let woken: Vec<u64> = self
            .requests
            .iter()
            .filter(|(_, request)| match &request.waiting {
                Some(Waiting::For(waits)) => waits.on.iter().any(met),
                Some(Waiting::Fleet) => true,
                None => false,
            })
            .map(|(id, _)| *id)
            .collect();
        for id in woken {
            self.resume(id);
        }
    }

    fn route_answered(&mut self, view: &FleetView, mut request: Request, decision: Decision) {
        self.decided(view, &mut request.owed, &decision);
        let covers = request.ask.policy.consistency.covers_reads();
        let known = request.ask.session.as_ref().filter(|_| covers);
        let key = self.key(request.app);
        let kept = self.sessions.read(key, decision.life, known, self.moment());
        self.tally.dropped += u64::from(kept == Kept::Dropped);
        let era = self.nodes[decision.server.index()].era;
        let travel = if self.chance(0.1) {
            self.between(0, 299_000)
        } else {
            self.between(0, 2_000)
        };
        let read = (request.app, decision, request.owed, era, request.sequential);
        self.act(travel, Act::Execute(Box::new(read)));
    }

    fn execute(&mut self, read: (usize, Decision, Owed, u32, bool)) {
        let (app, decision, owed, era, sequential) = read;
        let node = &self.nodes[decision.server.index()];
        let shown = node.visible.clone();
        let same_era = node.era == era;
        self.judge(app, &decision, &owed, same_era, &shown);
        let travel = self.between(0, 1_500);
        self.act(travel, Act::Ended(app, Box::new(shown), sequential));
    }

    fn ended(&mut self, app: usize, shown: &GtidSet, sequential: bool) {
        self.apps[app].seen.union_with(shown);
        self.shown_to_anyone.union_with(shown);
        self.go_on(app, sequential);
    }

    fn go_on(&mut self, app: usize, sequential: bool) {
        if sequential {
            let pause = self.think();
            self.act(pause, Act::Read(app, true));
        }
    }

    /// Mostly busy; now and then silent for longer than a session is kept.
    fn think(&mut self) -> u64 {
        if self.chance(0.02) {
            self.between(1_000_000, 5_000_000)
        } else {
            self.between(500, 60_000)
        }
    }

    pub(super) fn key(&self, app: usize) -> crate::session::Key {
        self.sessions.key(&app.to_string())
    }

    pub(super) fn count_sessions(&mut self) {
        let read = |counter: &std::sync::atomic::AtomicU64| {
            counter.load(std::sync::atomic::Ordering::Relaxed)
        };
        let counters = self.sessions.counters();
        self.tally.settled = read(&counters.settled);
        self.tally.expired = read(&counters.expired);
    }
}
