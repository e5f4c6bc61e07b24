//! How often an instance is made to LOAD: a bound on what it costs, in time
//! (2 to 20 ms when measured) and in the instance's log (12 to 787 KB each).
//!
//! Pure: no connection, no clock.

use std::collections::VecDeque;
use std::time::Duration;

use crate::moment::Moment;

/// With this many LOADs in the last minute, the next ones are a second apart.
const PER_MINUTE: usize = 60;
const SPAN: Duration = Duration::from_secs(60);
const SLOW: Duration = Duration::from_secs(1);

/// The LOADs of the last minute.
#[derive(Debug, Default)]
pub(super) struct Pace {
    loads: VecDeque<Moment>,
}

impl Pace {
    /// When the next LOAD may be, if not now; `interval` is the least time
    /// between two.
    pub(super) fn until(&mut self, now: Moment, interval: Duration) -> Option<Moment> {
        let past = |at: &Moment| now.since(*at) >= SPAN;
        while self.loads.front().is_some_and(past) {
            self.loads.pop_front();
        }
        let interval = if self.loads.len() >= PER_MINUTE {
            interval.max(SLOW)
        } else {
            interval
        };
        let next = self.loads.back()?.plus(interval);
        (next > now).then_some(next)
    }

    /// A LOAD is made now.
    pub(super) fn load(&mut self, now: Moment) {
        self.loads.push_back(now);
    }

    /// The LOAD noted last was not made.
    pub(super) fn take_back(&mut self) {
        self.loads.pop_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(100);

    fn at(ms: u64) -> Moment {
        Moment::from_micros(ms * 1000)
    }

    #[test]
    fn loads_are_an_interval_apart() {
        let mut pace = Pace::default();
        assert_eq!(pace.until(at(5), INTERVAL), None);
        pace.load(at(5));
        assert_eq!(pace.until(at(6), INTERVAL), Some(at(105)));
        assert_eq!(pace.until(at(105), INTERVAL), None);
        pace.load(at(105));
        pace.take_back();
        assert_eq!(pace.until(at(105), INTERVAL), None);
    }

    /// As many LOADs as are let through in ten minutes of wanting one always.
    #[test]
    fn who_always_wants_one_gets_few() {
        let (mut pace, mut now, mut loads) = (Pace::default(), at(0), Vec::new());
        while now < at(600_000) {
            match pace.until(now, INTERVAL) {
                Some(next) => now = next,
                None => {
                    pace.load(now);
                    loads.push(now);
                }
            }
        }
        for pair in loads.windows(2) {
            assert!(pair[1].since(pair[0]) >= INTERVAL, "{pair:?}");
        }
        for (first, at) in loads.iter().enumerate() {
            let minute = loads[first..]
                .iter()
                .take_while(|next| next.since(*at) < SPAN);
            let count = minute.count();
            assert!(count <= 2 * PER_MINUTE, "{count} within a minute");
        }
    }
}
