//! **Here a read is decided.**
//!
//! The order of preference: a replica that keeps the promise now; knowing more,
//! when only knowledge is missing; a replica that will keep it soon; the source;
//! and past all that what the caller said should happen on a timeout.

use std::time::Duration;

use smallvec::SmallVec;

use super::choose::{Scan, picked, stays};
use super::fit::{Demands, Fit};
use super::{Ask, Consistency, Decision, Failure, OnTimeout, Reason, Step, Waits};
use crate::fleet::{FleetView, Life, Role, ServerIx, ServerView};
use crate::gtid::GtidSet;
use crate::moment::Moment;

/// Replicas waited for at once: the first that catches up serves the read.
const WAIT_FOR_MAX: usize = 2;

/// A replica that misses nothing older than this keeps up with the source.
const KEEPS_UP: Duration = Duration::from_millis(5);

/// The next step for a request. Never answers with a server that does not keep
/// the promise, unless the decision says so (`degraded`).
pub fn decide(view: &FleetView, ask: &Ask, now: Moment) -> Step {
    let demands = Demands::of(ask, view, now);
    let lacks_fence = ask.needs_fence() && ask.fence.is_none();
    if !lacks_fence
        && let Some(server) = stays(view, &demands).or_else(|| picked(view, ask, &demands))
    {
        return from_replica(server, ask, now);
    }
    let scan = Scan::of(view, &demands);
    if ask.session_dropped() {
        return from_source(view, ask, now, Reason::SourceSessionDropped);
    }
    if !scan.any_usable {
        return from_source(view, ask, now, Reason::SourceNoReplica);
    }
    if lacks_fence {
        return match view.source() {
            Some(_) if now < ask.hard_deadline => Step::Fence,
            None if now < ask.deadline => Step::WaitForFleet,
            _ => past_deadline(view, ask, now),
        };
    }
    if let Some(ix) = scan.choice(view, ask) {
        return from_replica(view.server(ix), ask, now);
    }
    if let Some(lost) = ask.lost() {
        return from_source_lost(view, ask, now, lost);
    }
    if let Some(step) = scan
        .unlocated
        .and_then(|ix| locate(view, ask, view.server(ix), now))
    {
        return step;
    }
    if now >= ask.deadline {
        return past_deadline(view, ask, now);
    }
    if scan.stale
        && ask.policy.max_staleness.is_some()
        && ask.fence.is_none()
        && may_ask(view, ask, now)
    {
        return Step::Fence;
    }
    wait_or_source(view, ask, now)
}

fn from_replica(server: &ServerView, ask: &Ask, now: Moment) -> Step {
    let reason = if ask.waited {
        Reason::ReplicaCaughtUp
    } else {
        Reason::ReplicaFresh
    };
    Step::Answer(answer(server, reason, false, now))
}

fn wait_or_source(view: &FleetView, ask: &Ask, now: Moment) -> Step {
    let best = best_to_wait_for(view, ask, now);
    if best.is_empty() {
        let strong = ask.policy.consistency == Consistency::Strong;
        return from_source(
            view,
            ask,
            now,
            if strong {
                Reason::SourceStrong
            } else {
                Reason::SourceChosen
            },
        );
    }
    // What a wait will need on another server than the session's last one.
    if let Some(step) = best
        .iter()
        .find_map(|ix| locate(view, ask, view.server(*ix), now))
    {
        return step;
    }
    let on = best
        .iter()
        .map(|ix| (*ix, ask.need_on(view, view.server(*ix))))
        .collect();
    let check_source = ask.fence.is_none() && !source_has(view, ask);
    Step::Wait(Waits {
        on,
        check_source,
        hard: false,
    })
}

/// The replicas to wait for. The session's last one goes alone while it keeps up
/// with the source, since staying there costs no question about earlier reads.
fn best_to_wait_for(view: &FleetView, ask: &Ask, now: Moment) -> SmallVec<[ServerIx; 2]> {
    let promising = |ix: &ServerIx| {
        let server = view.server(*ix);
        let waitable =
            ask.policy.on_timeout != OnTimeout::Source || worth_waiting(server, ask, now);
        // Nothing left to wait for, and still no fit: waiting would not help.
        waitable && !view.meets(server, &ask.need_on(view, server))
    };
    let mut best: SmallVec<[ServerIx; 2]> = Scan::by_promise(view, ask, now)
        .into_iter()
        .filter(promising)
        .collect();
    let keeps_up = |ix: &&ServerIx| {
        view.server(**ix)
            .behind_for(now)
            .is_none_or(|behind| behind < KEEPS_UP)
    };
    let last = ask
        .session
        .as_ref()
        .filter(|_| ask.policy.consistency.keeps_reads())
        .and_then(|state| state.seen.last);
    match best
        .iter()
        .filter(keeps_up)
        .find(|ix| last == Some(view.server(**ix).life))
    {
        Some(last) => SmallVec::from_iter([*last]),
        None => {
            best.truncate(WAIT_FOR_MAX);
            best
        }
    }
}

/// A replica whose oldest missing transaction has been missing for longer than
/// the caller would wait is unlikely to catch up within the wait.
fn worth_waiting(server: &ServerView, ask: &Ask, now: Moment) -> bool {
    let patience = ask.deadline.since(now);
    server.applying
        && server
            .behind_for(now)
            .is_none_or(|behind| behind <= patience)
}

fn past_deadline(view: &FleetView, ask: &Ask, now: Moment) -> Step {
    match ask.policy.on_timeout {
        OnTimeout::Source => from_source(
            view,
            ask,
            now,
            if ask.waited {
                Reason::SourceTimeout
            } else {
                Reason::SourceChosen
            },
        ),
        OnTimeout::Error => Step::Fail(Failure::WaitTimeout),
        OnTimeout::Stale => match Scan::by_promise(view, ask, now).first() {
            Some(ix) => Step::Answer(answer(view.server(*ix), Reason::StaleAllowed, true, now)),
            None => from_source(view, ask, now, Reason::SourceNoReplica),
        },
    }
}

/// The source keeps every promise, once three things are sure: it is the source,
/// it still has what was written, and it shows all that a replica has shown (a
/// replica may show a transaction just before the source does).
fn from_source(view: &FleetView, ask: &Ask, now: Moment, reason: Reason) -> Step {
    let Some(source) = view.source() else {
        return no_source(view, ask, now);
    };
    let has_writes = source_has(view, ask);
    if ask.fence.is_none() && !has_writes && may_ask(view, ask, now) {
        return Step::Fence;
    }
    if let Some(lost) = ask.lost() {
        return from_source_lost(view, ask, now, lost);
    }
    match ask.fit_earlier_reads(view, source) {
        Fit::Fits if has_writes => Step::Answer(answer(source, reason, false, now)),
        Fit::EarlierReadsUnknown if now < ask.hard_deadline => {
            locate(view, ask, source, now).unwrap_or(Step::Fence)
        }
        _ if now < ask.hard_deadline => {
            let on = SmallVec::from_iter([(source.ix, ask.need_on(view, source))]);
            Step::Wait(Waits {
                on,
                check_source: false,
                hard: true,
            })
        }
        _ if ask.policy.on_timeout == OnTimeout::Error => Step::Fail(Failure::WaitTimeout),
        _ => Step::Answer(answer(source, reason, true, now)),
    }
}

/// The promise cannot be kept by any server: what the session saw is gone.
fn from_source_lost(view: &FleetView, ask: &Ask, now: Moment, lost: GtidSet) -> Step {
    match view.source() {
        Some(source) => Step::Answer(Decision {
            lost: Some(lost),
            ..answer(source, Reason::SourceWriteLost, true, now)
        }),
        None => no_source(view, ask, now),
    }
}

fn no_source(view: &FleetView, ask: &Ask, now: Moment) -> Step {
    if now < ask.deadline {
        return Step::WaitForFleet;
    }
    Step::Fail(
        view.source
            .clone()
            .map_or_else(Failure::NoServer, |_| Failure::SourceLost),
    )
}

impl Ask {
    /// What was required and the source, asked after the request arrived, does
    /// not have: it is gone for good.
    pub(crate) fn lost(&self) -> Option<GtidSet> {
        let executed = &self.fence.as_ref()?.executed;
        let mut lost = GtidSet::default();
        for need in self.writes().filter(|need| !need.met_by(executed)) {
            lost.union_with(&need.to_set().subtract(executed));
        }
        (!lost.is_empty()).then_some(lost)
    }
}

/// The source was already seen to have what the request requires.
fn source_has(view: &FleetView, ask: &Ask) -> bool {
    view.source()
        .is_none_or(|source| ask.writes().all(|need| view.meets(source, need)))
}

/// The question to ask before `server` can be judged, if one is left.
fn locate(view: &FleetView, ask: &Ask, server: &ServerView, now: Moment) -> Option<Step> {
    let life = ask.unlocated(view, server.life)?;
    if now >= ask.hard_deadline {
        return None;
    }
    match view.living(life).filter(|seen| seen.usable) {
        Some(seen) => Some(Step::Locate(life, seen.ix)),
        None => may_ask(view, ask, now).then_some(Step::Fence),
    }
}

fn may_ask(view: &FleetView, ask: &Ask, now: Moment) -> bool {
    now < ask.hard_deadline && view.source().is_some()
}

fn answer(server: &ServerView, reason: Reason, degraded: bool, now: Moment) -> Decision {
    let staleness = if server.role == Role::Source {
        Some(Duration::ZERO)
    } else {
        server.staleness(now)
    };
    Decision {
        server: server.ix,
        // What a degraded read shows is behind what the session has seen, so
        // that it is no position to go on from.
        life: if degraded { Life::ANY } else { server.life },
        role: server.role,
        reason,
        degraded,
        staleness,
        lost: None,
    }
}
