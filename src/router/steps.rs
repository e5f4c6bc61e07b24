//! Carrying out the steps of one decision: ask, wait, decide again.

use std::sync::Arc;
use std::time::Duration;

use crate::clock;
use crate::fleet::{FleetView, Life, ServerIx};
use crate::gtid::{GtidSet, Sid};
use crate::moment::Moment;
use crate::observe::Hub;
use crate::route::{Ask, Decision, Failure, Step, Waits, decide};

/// A write that no replica shows after this long may be lost: ask the source.
const LOST_AFTER: Duration = Duration::from_millis(5);

/// Decides until there is an answer. The time until then is zero when nothing
/// had to be waited for.
pub(super) async fn run(
    hub: &Hub,
    ask: &mut Ask,
    arrived: Moment,
) -> Result<(Arc<FleetView>, Decision, Duration), Failure> {
    let mut now = arrived;
    let mut waited = Duration::ZERO;
    loop {
        let view = Arc::clone(&hub.view());
        match decide(&view, ask, now) {
            Step::Answer(decision) => return Ok((view, decision, waited)),
            Step::Fail(failure) => return Err(failure),
            Step::Fence => fence(hub, ask, &view).await,
            Step::Locate(life, server) => locate(hub, ask, &view, life, server).await,
            Step::Wait(waits) => wait(hub, ask, &waits).await,
            Step::WaitForFleet => hub.wait_for_change(&view, ask.deadline).await,
        }
        now = clock::now();
        waited = now.since(arrived);
    }
}

async fn fence(hub: &Hub, ask: &mut Ask, view: &Arc<FleetView>) {
    match hub.fence(ask.hard_deadline).await {
        Ok(fence) => ask.fence = Some(fence),
        // Whatever went wrong shows in the fleet, soon.
        Err(_) => hub.wait_for_change(view, ask.hard_deadline).await,
    }
}

async fn locate(hub: &Hub, ask: &mut Ask, view: &Arc<FleetView>, life: Life, server: ServerIx) {
    let located = hub.locate(server, ask.hard_deadline).await;
    // An answer from another epoch says nothing about the one asked for.
    let same_life = hub.view().server(server).life == life;
    match located {
        Ok(fence) if same_life => {
            let bound = without_errant(hub, ask, view, &fence.upper).await;
            ask.located.push((life, bound));
        }
        _ => hub.wait_for_change(view, ask.hard_deadline).await,
    }
}

/// `upper` less the errant transactions in it: those that the source, asked
/// after the server, neither has nor is about to have. No other server will
/// ever show them, and waiting for them would be in vain.
async fn without_errant(
    hub: &Hub,
    ask: &mut Ask,
    view: &FleetView,
    upper: &Arc<GtidSet>,
) -> Arc<GtidSet> {
    let Some(executed) = view.source().and_then(|source| source.executed()) else {
        return Arc::clone(upper);
    };
    let unknown = upper.subtract(executed);
    let from_source = |(sid, _): (&Sid, _)| view.main_sid.as_ref() == Some(sid);
    if unknown.sids().all(from_source) {
        return Arc::clone(upper);
    }
    match hub.fence(ask.hard_deadline).await {
        Ok(fence) => {
            let bound = Arc::new(upper.intersect(&fence.upper));
            ask.fence = Some(fence);
            bound
        }
        Err(_) => Arc::clone(upper),
    }
}

async fn wait(hub: &Hub, ask: &mut Ask, waits: &Waits) {
    let deadline = if waits.hard {
        ask.hard_deadline
    } else {
        ask.deadline
    };
    ask.waited = true;
    if !waits.check_source {
        hub.wait(&waits.on, deadline).await;
        return;
    }
    // Almost every wait is over before this, and then the source is not asked.
    let soon = clock::now().plus(LOST_AFTER).min(deadline);
    if hub.wait(&waits.on, soon).await {
        return;
    }
    let caught_up = hub.wait(&waits.on, deadline);
    tokio::pin!(caught_up);
    tokio::select! {
        biased;
        _ = &mut caught_up => return,
        fence = hub.fence(ask.hard_deadline) => ask.fence = fence.ok(),
    }
    if ask.lost().is_none() {
        caught_up.await;
    }
}
