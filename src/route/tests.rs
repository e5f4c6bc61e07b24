//! What a decision promises, case by case.

mod choice;
mod degraded;
mod earlier_reads;
mod levels;
mod lost_writes;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::fleet::testing::{Lab, at, set};
use crate::session::{Seen, State};

const MS: Duration = Duration::from_millis(1);

/// A request that arrives at 1000 ms and may wait until 1050 ms.
fn ask(consistency: Consistency) -> Ask {
    Ask {
        policy: Policy {
            consistency,
            ..Policy::default()
        },
        deadline: at(1050),
        hard_deadline: at(1100),
        session_staleness_max: Duration::from_secs(60),
        seed: 1,
        ..Ask::default()
    }
}

/// A session that wrote this.
fn with_session(consistency: Consistency, wrote: &str) -> Ask {
    Ask {
        session: Some(State {
            requirement: Requirement::of(set(wrote)),
            ..State::default()
        }),
        ..ask(consistency)
    }
}

/// A session that read last on one server and before that on another.
fn with_reads(lab: &Lab, last: usize, before: Option<usize>) -> Ask {
    let life = |server: usize| lab.server(server).life;
    let mut ask = with_session(Consistency::Session, "");
    session(&mut ask).seen = Seen {
        last: Some(life(last)),
        before: before.map(life),
        crowded: false,
    };
    ask
}

fn session(ask: &mut Ask) -> &mut State {
    ask.session.as_mut().expect("a session is named")
}

fn fence(owned: &str, executed: &str) -> Option<Arc<Fence>> {
    Some(Arc::new(Fence::new(&set(owned), Arc::new(set(executed)))))
}

/// The step as a short text: where and why, or what next.
fn step(lab: &Lab, ask: &Ask, ms: u64) -> String {
    match decide(&lab.view(), ask, at(ms)) {
        Step::Answer(decision) => format!(
            "{} {}{}",
            decision.server.0,
            decision.reason.name(),
            if decision.degraded { " degraded" } else { "" }
        ),
        Step::Fail(failure) => format!("fail: {failure}"),
        Step::Fence => "fence".into(),
        Step::Locate(_, server) => format!("locate {}", server.0),
        Step::Wait(waits) => {
            let on: Vec<String> = waits
                .on
                .iter()
                .map(|(server, _)| server.0.to_string())
                .collect();
            let hard = if waits.hard { " hard" } else { "" };
            let check = if waits.check_source {
                " and check the source"
            } else {
                ""
            };
            format!("wait {}{hard}{check}", on.join(" "))
        }
        Step::WaitForFleet => "wait for the fleet".into(),
    }
}

/// The source has 1..=9; replica 1 too, replica 2 only 1..=5.
fn one_behind() -> Lab {
    let mut lab = Lab::running(3, "A:1-5");
    lab.executed(0, "A:1-9", 995);
    lab.executed(1, "A:1-9", 996);
    lab
}

/// The source has 1..=9, both replicas 1..=5.
fn all_behind() -> Lab {
    let mut lab = Lab::running(3, "A:1-5");
    lab.executed(0, "A:1-9", 995);
    lab
}
