//! Forgetting what nothing asks for any more, a little at a time.

use std::sync::Arc;
use std::time::Duration;

use super::Inner;
use crate::clock;

const TICK: Duration = Duration::from_millis(100);
/// All shards are swept in this many ticks.
const TICKS_PER_ROUND: usize = 10;
/// While memory is short, replicas that miss something older than this do not
/// keep sessions from being settled.
const LAG_LEFT_OUT: Duration = Duration::from_secs(1);

pub(super) fn spawn(inner: &Arc<Inner>) {
    let shared = Arc::clone(inner);
    inner.tasks.spawn(async move {
        let mut next_shard = 0;
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => next_shard = sweep(&shared, next_shard).await,
                () = shared.stop.cancelled() => return,
            }
        }
    });
}

async fn sweep(inner: &Inner, first: usize) -> usize {
    let pressed = inner.sessions.under_pressure();
    if !inner.sessions.is_empty() {
        // Dates the floor: what any server can have shown by now. Without an
        // answer the date stays, and sessions are remembered for longer.
        let _ = inner.hub.fence(clock::now().plus(TICK)).await;
    }
    inner.hub.raise_floor(pressed.then_some(LAG_LEFT_OUT));
    let floor = inner.hub.view().floor.clone();
    let shards = inner.sessions.shards();
    for shard in first..first + shards.div_ceil(TICKS_PER_ROUND) {
        inner.sessions.sweep(shard % shards, &floor, clock::now());
        tokio::task::yield_now().await;
    }
    (first + shards.div_ceil(TICKS_PER_ROUND)) % shards
}
