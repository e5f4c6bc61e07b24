//! What a history is made of: writes, reads, and what was promised to each read.
//!
//! Plain values with times in microseconds of one monotonic clock, so that a
//! history can be recorded live, written by hand in a test or generated. Knows
//! nothing of MySQL, Causeway or how the times were taken.

use std::sync::Arc;

/// A session (one client of the workload), by number.
pub type SessionId = u32;
/// A row, by number. One session only writes it.
pub type KeyId = u32;
/// What a row holds: a number that its one writer only ever increases.
pub type Version = u64;

/// What is remembered of a write that had happened before this history began.
pub const NOBODY: SessionId = SessionId::MAX;

/// How a write ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The source acknowledged it: from here on it may be required.
    Ok,
    /// It failed in a way that leaves open whether it happened (text: why). It
    /// may be seen or not, and is never required.
    Unknown(String),
}

/// One write of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Who wrote.
    pub session: SessionId,
    /// The row.
    pub key: KeyId,
    /// The version written; increases strictly per row.
    pub version: Version,
    /// When the statement was sent.
    pub start_us: u64,
    /// When its answer (or error) had arrived.
    pub end_us: u64,
    /// Whether it is known to have happened.
    pub outcome: WriteOutcome,
}

/// One read of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// Who read.
    pub session: SessionId,
    /// The row.
    pub key: KeyId,
    /// The version seen, `None` when the row (or its table) was not there.
    pub seen: Option<Version>,
    /// When the routed read was asked for, before any routing or waiting.
    pub start_us: u64,
    /// When the row had arrived.
    pub end_us: u64,
    /// The server that answered.
    pub server: Arc<str>,
    /// What was promised.
    pub promise: Promise,
    /// Whether the router said that it did not keep the promise. Such a read is
    /// counted apart and breaks nothing.
    pub degraded: bool,
}

/// A write or a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// A write.
    Write(Write),
    /// A read.
    Read(Read),
}

impl Operation {
    /// When the operation was asked for.
    #[must_use]
    pub fn start_us(&self) -> u64 {
        match self {
            Self::Write(write) => write.start_us,
            Self::Read(read) => read.start_us,
        }
    }

    /// When the operation had ended.
    #[must_use]
    pub fn end_us(&self) -> u64 {
        match self {
            Self::Write(write) => write.end_us,
            Self::Read(read) => read.end_us,
        }
    }
}

/// The consistency levels of Causeway's contract, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Consistency {
    /// Any version will do.
    Eventual,
    /// No older than a bound.
    Bounded,
    /// Never older than this session's last read.
    Monotonic,
    /// Everything this session had acknowledged.
    ReadYourWrites,
    /// Read-your-writes and monotonic.
    Session,
    /// Everything committed before the request, by anyone.
    Strong,
}

impl Consistency {
    /// The name in the HTTP contract.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Eventual => "eventual",
            Self::Bounded => "bounded",
            Self::Monotonic => "monotonic",
            Self::ReadYourWrites => "read_your_writes",
            Self::Session => "session",
            Self::Strong => "strong",
        }
    }

    /// The level of a name in the HTTP contract.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let all = <Self as clap::ValueEnum>::value_variants();
        all.iter().copied().find(|level| level.name() == name)
    }
}

/// What one read was promised: the parts that the checks look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Promise {
    /// The session's own acknowledged writes are seen.
    pub own_writes: bool,
    /// No row goes back for this session.
    pub monotonic: bool,
    /// Every version acknowledged longer ago than this is seen.
    pub bound_us: Option<u64>,
    /// Every version acknowledged before the read began is seen, and every
    /// version that anyone had read by then.
    pub strong: bool,
}

impl Promise {
    /// No promise: nothing is checked but that versions exist.
    pub const NONE: Self = Self {
        own_writes: false,
        monotonic: false,
        bound_us: None,
        strong: false,
    };

    /// The promise of a consistency level, with the staleness bound asked for.
    ///
    /// A bound counts beside any level; `bounded` without one promises nothing
    /// that could be checked.
    #[must_use]
    pub fn new(consistency: Consistency, bound_us: Option<u64>) -> Self {
        use Consistency::{Monotonic, ReadYourWrites, Session, Strong};
        Self {
            own_writes: matches!(consistency, ReadYourWrites | Session),
            monotonic: matches!(consistency, Monotonic | Session),
            bound_us,
            strong: consistency == Strong,
        }
    }
}
