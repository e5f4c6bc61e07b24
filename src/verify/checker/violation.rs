//! A broken promise: which one, by which two operations, in plain words.
//!
//! Written for the person who runs the database, who has not read the checker.

use std::fmt;

use super::history::{Read, Version};
use super::timeline::Earlier;

/// Which promise was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ViolationKind {
    /// A session did not see its own acknowledged write.
    ReadYourWrites,
    /// A session saw a row go back.
    MonotonicReads,
    /// A read was older than its bound.
    BoundedStaleness,
    /// A strong read missed a write acknowledged before it began.
    Strong,
    /// A strong read missed a version that another read had already returned.
    RealTime,
    /// A read returned a version that nobody had begun to write.
    NeverWritten,
}

impl ViolationKind {
    /// The name used in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadYourWrites => "read_your_writes",
            Self::MonotonicReads => "monotonic_reads",
            Self::BoundedStaleness => "bounded_staleness",
            Self::Strong => "strong",
            Self::RealTime => "real_time",
            Self::NeverWritten => "never_written",
        }
    }
}

/// One broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which promise.
    pub kind: ViolationKind,
    /// The read that broke it.
    pub read: Read,
    /// The operation it should have seen; `None` for a version never written.
    pub earlier: Option<Earlier>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let read = &self.read;
        write!(
            f,
            "session {} read {} of row {} on {} at {}",
            read.session,
            Seen(read.seen),
            read.key,
            read.server,
            Seconds(read.start_us),
        )?;
        match &self.earlier {
            Some(earlier) => self.fmt_missed(earlier, f),
            None => write!(f, ": nobody had written that"),
        }
    }
}

impl Violation {
    /// What the read should have seen, and why.
    fn fmt_missed(&self, earlier: &Earlier, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (version, writer) = (earlier.version, earlier.session);
        let at = Seconds(earlier.end_us);
        let later = Millis(self.read.start_us.saturating_sub(earlier.end_us));
        let place = earlier.server.as_deref().unwrap_or("the source");
        match self.kind {
            ViolationKind::ReadYourWrites => write!(
                f,
                ", {later} after its own write of version {version} was acknowledged ({at}): it did not see its own write"
            ),
            ViolationKind::MonotonicReads => write!(
                f,
                ", {later} after it had already read version {version} on {place} ({at}): the row went back in time"
            ),
            ViolationKind::BoundedStaleness => write!(
                f,
                " with a staleness of at most {} promised, but version {version} had been acknowledged {later} before ({at})",
                Millis(self.read.promise.bound_us.unwrap_or(0)),
            ),
            ViolationKind::Strong => write!(
                f,
                " with strong consistency promised, but version {version} of session {writer} had been acknowledged {later} before ({at})"
            ),
            ViolationKind::RealTime => write!(
                f,
                " with strong consistency promised, but session {writer} had already read version {version} on {place} {later} before ({at})"
            ),
            ViolationKind::NeverWritten => Ok(()),
        }
    }
}

/// "version 7", or "no row".
struct Seen(Option<Version>);

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(version) => write!(f, "version {version}"),
            None => write!(f, "no row"),
        }
    }
}

/// A moment of the run, in seconds.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06} s", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// A duration, in milliseconds.
struct Millis(u64);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03} ms", self.0 / 1_000, self.0 % 1_000)
    }
}
