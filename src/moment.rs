//! A point on Causeway's one monotonic clock.
//!
//! Staleness, deadlines and expiries are differences between two moments of the
//! same process, never between clocks of two hosts (invariant 9). This module
//! must not read a clock; only `clock` does.

use std::time::Duration;

/// Microseconds since this process first looked at its clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The moment `micros` microseconds after the process started.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the process started.
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// Time passed since `earlier`; zero when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// The moment `span` later, saturating.
    pub fn plus(self, span: Duration) -> Self {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(micros))
    }

    /// The moment `span` earlier, or the start of the process.
    pub fn minus(self, span: Duration) -> Self {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(micros))
    }
}
