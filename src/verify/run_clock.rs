//! The time of a history: microseconds since the run began.

use crate::clock::{self, Moment};

/// Counts from the start of a run, so that reports show times one can read.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunClock {
    start: Moment,
}

impl RunClock {
    pub(super) fn start() -> Self {
        let start = clock::now();
        Self { start }
    }

    pub(super) fn now_us(self) -> u64 {
        u64::try_from(clock::now().since(self.start).as_micros()).unwrap_or(u64::MAX)
    }
}
