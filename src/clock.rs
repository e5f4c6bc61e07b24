//! The only reader of clocks.
//!
//! Everything else is handed a [`Moment`], so that the core can be tested with
//! made-up time. Clippy's `disallowed-methods` keeps it that way.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use crate::moment::Moment;

static START: OnceLock<Instant> = OnceLock::new();

#[expect(clippy::disallowed_methods, reason = "this module is the clock")]
fn start() -> Instant {
    *START.get_or_init(Instant::now)
}

/// Room before the start, so that "a bound before now" never saturates at zero
/// and a zero moment is always long past.
const HEADROOM: Duration = Duration::from_secs(3600);

/// Now, on Causeway's own monotonic clock.
#[expect(clippy::disallowed_methods, reason = "this module is the clock")]
pub fn now() -> Moment {
    let start = start();
    Moment::default().plus(Instant::now().duration_since(start) + HEADROOM)
}

/// The runtime's timer value for `moment`, for use with `tokio::time`.
pub fn timer(moment: Moment) -> tokio::time::Instant {
    let since_start = moment.since(Moment::default().plus(HEADROOM));
    tokio::time::Instant::from_std(start() + since_start)
}

/// Wall-clock time, microseconds since 1970. For display and reports, never
/// for staleness.
#[expect(clippy::disallowed_methods, reason = "this module is the clock")]
pub fn unix_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| u64::try_from(d.as_micros()).unwrap_or(u64::MAX))
}
