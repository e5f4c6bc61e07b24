//! What the session table promises, by topic.

mod forgetting;
mod model;
mod positions;
mod threads;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::fleet::testing::{at, set};

const LIMITS: Limits = Limits {
    sessions_max: 100,
    ttl: Duration::from_secs(10),
    answer_ttl: Duration::from_secs(1),
};

fn table(limits: Limits) -> Sessions {
    Sessions::new(limits, [1; 16])
}

fn floor(text: &str, as_of: Option<u64>) -> Floor {
    Floor {
        set: Arc::new(set(text)),
        as_of: as_of.map(at),
    }
}

fn need(text: &str) -> Requirement {
    Requirement::of(set(text))
}

/// Session "u" wrote this, above an empty floor.
fn wrote(sessions: &Sessions, text: &str, ms: u64) -> Kept {
    let key = sessions.key("u");
    sessions.write(key, &need(text), &Floor::default(), None, at(ms))
}

fn state(sessions: &Sessions, ms: u64) -> State {
    sessions.state(sessions.key("u"), at(ms))
}

/// A read that arrived and was answered in the same moment.
fn read(sessions: &Sessions, life: u32, ms: u64) -> Kept {
    read_from(sessions, life, ms, ms)
}

fn read_from(sessions: &Sessions, life: u32, arrived: u64, ms: u64) -> Kept {
    let known = state(sessions, arrived);
    sessions.read(sessions.key("u"), Life(life), Some(&known), at(ms))
}

fn sweep(sessions: &Sessions, floor: &Floor, ms: u64) {
    for shard in 0..sessions.shards() {
        sessions.sweep(shard, floor, at(ms));
    }
}
