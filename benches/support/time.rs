//! Time, for benchmarks only.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// Now.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads clocks")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Times of single operations.
#[derive(Clone, Debug)]
pub(crate) struct Times(Histogram<u64>);

impl Times {
    pub(crate) fn new() -> Self {
        Self(Histogram::new_with_max(60_000_000_000, 3).expect("a minute, to three digits"))
    }

    pub(crate) fn add(&mut self, time: Duration) {
        self.0
            .saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn quantile(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(quantile))
    }

    pub(crate) fn p50(&self) -> Duration {
        self.quantile(0.5)
    }

    pub(crate) fn p99(&self) -> Duration {
        self.quantile(0.99)
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.len()
    }
}

/// What two readings of the clock right after each other tell: part of every
/// time that is taken of one operation.
pub(crate) fn clock_cost() -> Duration {
    let mut times = Times::new();
    for _ in 0..100_000 {
        let start = now();
        times.add(start.elapsed());
    }
    times.p50()
}
