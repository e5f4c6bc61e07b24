//! Random histories of a simulated server: none may be reported, and a planted
//! lie must be.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::{
    Checker, Consistency, Limits, Operation, Promise, Read, ViolationKind, Write, WriteOutcome,
};

const SESSIONS: u32 = 3;

/// One operation to be: by whom, what, and how its time passes.
#[derive(Debug, Clone)]
struct Step {
    session: u32,
    write: bool,
    in_doubt: bool,
    key: u32,
    pause_us: u64,
    to_effect_us: u64,
    to_end_us: u64,
    lag_us: u64,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let times = (0..30_u64, 0..20_u64, 0..20_u64, 0..=50_u64);
    let step = (0..SESSIONS, any::<bool>(), 0..10_u8, 0..SESSIONS, times);
    let step = step.prop_map(|(session, write, doubt, key, times)| Step {
        session,
        write,
        in_doubt: doubt == 0,
        key,
        pause_us: times.0,
        to_effect_us: times.1,
        to_end_us: times.2,
        lag_us: times.3,
    });
    prop::collection::vec(step, 1..60)
}

/// Plays the steps on one server whose operations take effect at one instant
/// between their start and end. With `lagging`, a read sees the state of up to
/// `lag_us` before.
fn play(steps: &[Step], promise: Promise, lagging: bool) -> Vec<Operation> {
    let mut clocks = [100_u64; SESSIONS as usize];
    let mut versions = [0_u64; SESSIONS as usize];
    let mut operations = Vec::new();
    // (effect, order of issue) of each write.
    let mut effects: BTreeMap<(u32, u64), u64> = BTreeMap::new();
    for step in steps {
        let session = step.session as usize;
        let start_us = clocks[session] + step.pause_us;
        let effect_us = start_us + step.to_effect_us;
        let end_us = effect_us + step.to_end_us;
        clocks[session] = end_us;
        let operation = if step.write {
            versions[session] += 1;
            effects.insert((step.session, versions[session]), effect_us);
            Operation::Write(write(step, versions[session], start_us, end_us))
        } else {
            Operation::Read(read(step, start_us, end_us, promise))
        };
        operations.push((effect_us, step.lag_us, operation));
    }
    let see = |(effect_us, lag_us, operation)| match operation {
        Operation::Read(read) => {
            let moment = if lagging {
                effect_us - lag_us
            } else {
                effect_us
            };
            let shown = effects
                .iter()
                .filter(|((key, _), at)| *key == read.key && **at <= moment);
            let seen = shown.map(|((_, version), _)| *version).max();
            Operation::Read(Read { seen, ..read })
        }
        write @ Operation::Write(_) => write,
    };
    operations.into_iter().map(see).collect()
}

fn write(step: &Step, version: u64, start_us: u64, end_us: u64) -> Write {
    let outcome = if step.in_doubt {
        WriteOutcome::Unknown("simulated".into())
    } else {
        WriteOutcome::Ok
    };
    Write {
        session: step.session,
        key: step.session,
        version,
        start_us,
        end_us,
        outcome,
    }
}

fn read(step: &Step, start_us: u64, end_us: u64, promise: Promise) -> Read {
    Read {
        session: step.session,
        key: step.key,
        seen: None,
        start_us,
        end_us,
        server: Arc::from("db1"),
        promise,
        degraded: false,
    }
}

fn everything() -> Promise {
    Promise {
        strong: true,
        bound_us: Some(0),
        ..Promise::new(Consistency::Session, None)
    }
}

/// The newest version of a read's row that its own session had acknowledged.
fn own_acknowledged(history: &[Operation], read: &Read) -> Option<u64> {
    let mut own = history.iter().filter_map(|operation| match operation {
        Operation::Write(write)
            if write.key == read.key
                && write.session == read.session
                && write.end_us < read.start_us
                && write.outcome == WriteOutcome::Ok =>
        {
            Some(write.version)
        }
        _ => None,
    });
    own.by_ref().max()
}

proptest! {
    #[test]
    fn a_linearizable_history_breaks_no_promise(steps in steps()) {
        let history = play(&steps, everything(), false);
        let checker = Checker::check(&history, Limits::default());
        prop_assert!(checker.counts().is_empty(), "{:?}", checker.examples());
    }

    #[test]
    fn a_lag_within_the_bound_breaks_no_bound(steps in steps()) {
        let promise = Promise::new(Consistency::Bounded, Some(50));
        let history = play(&steps, promise, true);
        let checker = Checker::check(&history, Limits::default());
        prop_assert!(checker.counts().is_empty(), "{:?}", checker.examples());
    }

    #[test]
    fn one_planted_stale_read_is_found(steps in steps(), pick in any::<prop::sample::Index>()) {
        let promise = Promise::new(Consistency::ReadYourWrites, None);
        let mut history = play(&steps, promise, false);
        let required = |operation: &Operation| match operation {
            Operation::Read(read) => own_acknowledged(&history, read),
            Operation::Write(_) => None,
        };
        let candidates: Vec<(usize, u64)> = (history.iter().enumerate())
            .filter_map(|(index, operation)| Some((index, required(operation)?)))
            .collect();
        prop_assume!(!candidates.is_empty());
        let (index, version) = candidates[pick.index(candidates.len())];
        if let Operation::Read(read) = &mut history[index] {
            read.seen = version.checked_sub(1).filter(|older| *older > 0);
        }
        let checker = Checker::check(&history, Limits::default());
        prop_assert_eq!(checker.counts().get(&ViolationKind::ReadYourWrites), Some(&1));
        prop_assert_eq!(checker.counts().len(), 1);
    }

    #[test]
    fn thinning_never_invents_a_violation(steps in steps()) {
        let history = play(&steps, everything(), false);
        let limits = Limits { horizon_us: 1, points_max: 2, examples_max: 1 };
        prop_assert!(Checker::check(&history, limits).counts().is_empty());
    }
}
