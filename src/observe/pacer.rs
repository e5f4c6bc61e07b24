//! A bound on queries per second.

use std::time::Duration;

use parking_lot::Mutex;

use crate::clock;
use crate::moment::Moment;

/// Queries that may follow each other at once after a quiet time.
const BURST: u32 = 20;

/// Spaces queries evenly once a small burst is used up.
#[derive(Debug)]
pub(crate) struct Pacer {
    interval: Duration,
    next: Mutex<Moment>,
}

impl Pacer {
    pub(crate) fn new(per_second_max: u32) -> Self {
        Self {
            interval: Duration::from_secs(1) / per_second_max.max(1),
            next: Mutex::default(),
        }
    }

    /// Waits until the next query may be sent.
    pub(crate) async fn turn(&self) {
        let now = clock::now();
        let at = self.reserve(now);
        if at > now {
            tokio::time::sleep_until(clock::timer(at)).await;
        }
    }

    /// The moment of the next turn, which is taken by this call.
    fn reserve(&self, now: Moment) -> Moment {
        let mut next = self.next.lock();
        let earliest = now.minus(self.interval * BURST);
        let at = (*next).max(earliest);
        *next = at.plus(self.interval);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_more_than_the_burst_and_the_rate() {
        let pacer = Pacer::new(1000);
        let start = Moment::from_micros(10_000_000);
        let turns: Vec<Moment> = (0..1020).map(|_| pacer.reserve(start)).collect();
        let at_once = turns.iter().filter(|at| **at <= start).count();
        assert!((20..=21).contains(&at_once), "{at_once} at once");
        let last = turns.last().unwrap().since(start);
        assert!(
            last >= Duration::from_millis(998),
            "1000 more turns took {last:?}"
        );
    }
}
