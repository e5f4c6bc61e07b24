//! Where a read may go: the decision, and nothing else.
//!
//! Start at [`decide()`]. It is a pure function of a fleet snapshot, what is known
//! of the session, what the caller asked for, and the time. When it needs to
//! know more, or to wait, it says so as a [`Step`]; the caller carries the step
//! out and asks again. It knows no tokio, no clock and no MySQL.

mod choose;
mod decide;
mod explain;
mod fit;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

pub use decide::decide;
pub use explain::{Candidate, explain};
pub use fit::Fit;

use crate::fleet::{Life, Role, ServerIx, SourceError};
use crate::gtid::GtidSet;
use crate::moment::Moment;
use crate::requirement::Requirement;
use crate::session;

/// What a read may miss, from the weakest promise to the strongest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consistency {
    /// Anything.
    Eventual,
    /// What was committed within the last `max_staleness`.
    Bounded,
    /// Nothing that an earlier read of the session showed.
    Monotonic,
    /// Nothing that the session wrote.
    ReadYourWrites,
    /// Nothing that the session wrote or read.
    #[default]
    Session,
    /// Nothing that anybody committed before the request.
    Strong,
}

impl Consistency {
    /// All levels, weakest first.
    pub const ALL: [Self; 6] = [
        Self::Eventual,
        Self::Bounded,
        Self::Monotonic,
        Self::ReadYourWrites,
        Self::Session,
        Self::Strong,
    ];

    /// The name used in the API, the configuration and the metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eventual => "eventual",
            Self::Bounded => "bounded",
            Self::Monotonic => "monotonic",
            Self::ReadYourWrites => "read_your_writes",
            Self::Session => "session",
            Self::Strong => "strong",
        }
    }

    /// The session's writes must show.
    pub(crate) const fn keeps_writes(self) -> bool {
        matches!(self, Self::ReadYourWrites | Self::Session)
    }

    /// The session's reads must not go back.
    pub(crate) const fn keeps_reads(self) -> bool {
        matches!(self, Self::Monotonic | Self::Session)
    }

    /// The chosen server has all that the session's earlier reads showed.
    pub(crate) const fn covers_reads(self) -> bool {
        matches!(self, Self::Monotonic | Self::Session | Self::Strong)
    }

    /// A token counts as part of the requirement.
    pub(crate) const fn keeps_token(self) -> bool {
        !matches!(self, Self::Eventual | Self::Bounded)
    }
}

/// What to do when no replica keeps the promise in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// Read from the source.
    #[default]
    Source,
    /// Read from the least stale replica, marked as degraded.
    Stale,
    /// Fail.
    Error,
}

/// What a caller asked for, after defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The promise.
    pub consistency: Consistency,
    /// A bound on staleness, beside the promise.
    pub max_staleness: Option<Duration>,
    /// What follows when the promise cannot be kept in time.
    pub on_timeout: OnTimeout,
    /// The caller's zone, as numbered in the fleet view; 0 for none.
    pub zone: u16,
}

/// Why a read went where it went. The same names in answers, metrics, reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// A replica already met the requirement.
    ReplicaFresh,
    /// A replica met it after a wait.
    ReplicaCaughtUp,
    /// No replica met it before the deadline.
    SourceTimeout,
    /// No replica can be used at all.
    SourceNoReplica,
    /// Every replica is too far behind for waiting to be worth it.
    SourceChosen,
    /// A strong read, with no replica known to be current.
    SourceStrong,
    /// Something about the session could not be kept in memory.
    SourceSessionDropped,
    /// A write that the session made is gone from the source.
    SourceWriteLost,
    /// The promise is not kept, as the caller allowed.
    StaleAllowed,
}

impl Reason {
    /// All reasons, in the order of [`Reason::index`].
    pub const ALL: [Self; 9] = [
        Self::ReplicaFresh,
        Self::ReplicaCaughtUp,
        Self::SourceTimeout,
        Self::SourceNoReplica,
        Self::SourceChosen,
        Self::SourceStrong,
        Self::SourceSessionDropped,
        Self::SourceWriteLost,
        Self::StaleAllowed,
    ];

    /// A small number, for tables of counters.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name used in answers, metrics and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReplicaFresh => "replica_fresh",
            Self::ReplicaCaughtUp => "replica_caught_up",
            Self::SourceTimeout => "source_timeout",
            Self::SourceNoReplica => "source_no_replica",
            Self::SourceChosen => "source_chosen",
            Self::SourceStrong => "source_strong",
            Self::SourceSessionDropped => "source_session_dropped",
            Self::SourceWriteLost => "source_write_lost",
            Self::StaleAllowed => "stale_allowed",
        }
    }
}

/// The source's state, learned after the request arrived.
#[derive(Clone, Debug)]
pub struct Fence {
    /// What the source had executed: covers every commit that returned before.
    pub executed: Arc<GtidSet>,
    /// The same as a requirement.
    pub need: Requirement,
    /// A bound on what any server could have shown before: executed and owned.
    pub upper: Arc<GtidSet>,
}

impl Fence {
    /// A fence from the source's `gtid_executed`, read after its `gtid_owned`.
    pub fn new(owned: &GtidSet, executed: Arc<GtidSet>) -> Self {
        let upper = if executed.contains_set(owned) {
            Arc::clone(&executed)
        } else {
            Arc::new(executed.union(owned))
        };
        Self {
            need: Requirement::of(GtidSet::clone(&executed)),
            executed,
            upper,
        }
    }
}

/// Everything a decision looks at besides the fleet.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    /// What was asked for.
    pub policy: Policy,
    /// What is known of the session; `None` when the request named none.
    pub session: Option<session::State>,
    /// What the caller's token requires.
    pub token: Requirement,
    /// No wait for a replica goes past this moment.
    pub deadline: Moment,
    /// No question to a server goes past this moment.
    pub hard_deadline: Moment,
    /// The staleness past which a replica may serve no session.
    pub session_staleness_max: Duration,
    /// The source's state, once asked for.
    pub fence: Option<Arc<Fence>>,
    /// What servers that the session read from may have shown it, once asked.
    pub located: SmallVec<[(Life, Arc<GtidSet>); 2]>,
    /// The request has waited for a replica.
    pub waited: bool,
    /// Any number, to spread reads over equally good replicas.
    pub seed: u64,
}

/// Where a read goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The server.
    pub server: ServerIx,
    /// The server's epoch, for the session's memory; [`Life::ANY`] when the
    /// promise is not kept.
    pub life: Life,
    /// Its role.
    pub role: Role,
    /// Why.
    pub reason: Reason,
    /// The promise is not kept.
    pub degraded: bool,
    /// The server's staleness as far as it is known; zero for the source.
    pub staleness: Option<Duration>,
    /// What the caller required and the source no longer has.
    pub lost: Option<GtidSet>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No server can keep the promise.
    #[error("{0}")]
    NoServer(#[from] SourceError),
    /// The source is known but lost.
    #[error("the source cannot be reached")]
    SourceLost,
    /// The deadline passed, and the caller asked for an error then.
    #[error("no replica met the requirement in time")]
    WaitTimeout,
}

/// What to do next about a request.
#[derive(Clone, Debug)]
pub enum Step {
    /// Done.
    Answer(Decision),
    /// Done, without a server.
    Fail(Failure),
    /// Learn the source's state ([`Ask::fence`]), then ask again.
    Fence,
    /// Learn what the server living `Life` may have shown ([`Ask::located`]).
    Locate(Life, ServerIx),
    /// Wait until one of these servers meets its requirement, then ask again.
    Wait(Waits),
    /// Wait until anything about the fleet changes, then ask again.
    WaitForFleet,
}

/// Servers to wait for, and for what. One of them suffices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    /// The servers, the most promising first.
    pub on: SmallVec<[(ServerIx, Requirement); 2]>,
    /// The source was not yet seen to have what is waited for: find out
    /// meanwhile whether it is lost.
    pub check_source: bool,
    /// The wait is for the source itself.
    pub hard: bool,
}
