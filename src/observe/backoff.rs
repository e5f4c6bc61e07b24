//! How long to wait before connecting again.

use std::time::Duration;

use rand::Rng;

use crate::fleet::Fault;

const FIRST: Duration = Duration::from_millis(50);
const LAST: Duration = Duration::from_secs(5);
/// A connection that lived this long was a good one.
const GOOD: Duration = Duration::from_secs(10);

/// Doubles from one failure to the next, with jitter, so that many Causeways do
/// not come back in step. The first retry is immediate.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    pub(super) fn ran_for(&mut self, time: Duration) {
        if time >= GOOD {
            self.failures = 0;
        }
    }

    pub(super) fn pause(&mut self, fault: &Fault) -> Duration {
        self.failures = self.failures.saturating_add(1);
        if self.failures == 1 && !fault.needs_a_person() {
            return Duration::ZERO;
        }
        let doubled = FIRST.saturating_mul(1 << self.failures.min(16)).min(LAST);
        doubled.mul_f64(rand::rng().random_range(0.5..1.0))
    }
}
