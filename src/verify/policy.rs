//! The ways of routing that are compared.
//!
//! Their names and settings, and the choices that need no I/O. Pure: time and
//! randomness are handed in.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::args::parse_duration;

/// How long sessions stick to the source by default: Rails' choice.
const STICKY_DEFAULT: Duration = Duration::from_secs(2);
/// How long a barrier waits by default: Causeway's default `max_wait`.
const BARRIER_DEFAULT: Duration = Duration::from_millis(50);

/// A way of routing reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Everything to the source.
    Source,
    /// A random replica.
    Random,
    /// The source for a while after a session's write, else a random replica.
    Sticky(Duration),
    /// `WAIT_FOR_EXECUTED_GTID_SET` of the session's last write on a random
    /// replica before each read; the source when that times out. `None`: the
    /// default wait.
    Barrier(Option<Duration>),
    /// Whatever Causeway answers.
    Causeway,
    /// Through ProxySQL, as its own rules send the query.
    Rules,
    /// Through ProxySQL, to this hostgroup.
    Hostgroup(u32),
}

impl Policy {
    /// All policies, the baselines first.
    #[must_use]
    pub fn all(max_wait: Option<Duration>) -> Vec<Self> {
        let barrier = Self::Barrier(None).with_wait(max_wait);
        vec![
            Self::Source,
            Self::Random,
            Self::Sticky(STICKY_DEFAULT),
            barrier,
            Self::Causeway,
        ]
    }

    /// All policies through ProxySQL that need no further knowledge of it.
    #[must_use]
    pub fn all_through() -> Vec<Self> {
        vec![Self::Rules, Self::Causeway]
    }

    /// Whether it can be run: through ProxySQL, or directly.
    pub(super) fn runs(self, through: bool) -> bool {
        match self {
            Self::Causeway => true,
            Self::Rules | Self::Hostgroup(_) => through,
            Self::Source | Self::Random | Self::Sticky(_) | Self::Barrier(_) => !through,
        }
    }

    /// Gives a barrier without a time of its own the wait that Causeway gets.
    #[must_use]
    pub fn with_wait(self, max_wait: Option<Duration>) -> Self {
        match self {
            // 0 would wait forever in MySQL.
            Self::Barrier(None) => {
                let wait = max_wait.unwrap_or(BARRIER_DEFAULT);
                Self::Barrier(Some(wait.max(Duration::from_millis(1))))
            }
            other => other,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source => write!(f, "source"),
            Self::Random => write!(f, "random"),
            Self::Sticky(time) => write!(f, "sticky:{time:?}"),
            Self::Barrier(None) => write!(f, "barrier"),
            Self::Barrier(Some(time)) => write!(f, "barrier:{time:?}"),
            Self::Causeway => write!(f, "causeway"),
            Self::Rules => write!(f, "rules"),
            Self::Hostgroup(number) => write!(f, "hostgroup:{number}"),
        }
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, time) = match text.split_once(':') {
            Some(("hostgroup", number)) => return hostgroup(number),
            Some((name, time)) => (name, Some(parse_duration(time)?)),
            None => (text, None),
        };
        match (name, time) {
            ("source", None) => Ok(Self::Source),
            ("random", None) => Ok(Self::Random),
            ("sticky", time) => Ok(Self::Sticky(time.unwrap_or(STICKY_DEFAULT))),
            ("barrier", Some(Duration::ZERO)) => {
                Err("a barrier of 0 would wait forever in MySQL".into())
            }
            ("barrier", time) => Ok(Self::Barrier(time)),
            ("causeway", None) => Ok(Self::Causeway),
            ("rules", None) => Ok(Self::Rules),
            _ => Err(format!(
                "`{text}` is none of all, source, random, sticky[:2s], barrier[:50ms], causeway, \
                 rules, hostgroup:N"
            )),
        }
    }
}

/// Hostgroups are signed integers in ProxySQL.
fn hostgroup(text: &str) -> Result<Policy, String> {
    let number = text.parse::<i32>().ok().and_then(|n| n.try_into().ok());
    number
        .map(Policy::Hostgroup)
        .ok_or_else(|| format!("`{text}` is not the number of a hostgroup"))
}

/// Whether a session still sticks to the source.
pub(super) fn sticks(time: Duration, last_write_us: Option<u64>, now_us: u64) -> bool {
    let Some(last_write_us) = last_write_us else {
        return false;
    };
    Duration::from_micros(now_us.saturating_sub(last_write_us)) < time
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_written_as_they_are_read() {
        for text in [
            "source",
            "random",
            "sticky:2s",
            "barrier:50ms",
            "causeway",
            "rules",
            "hostgroup:20",
        ] {
            assert_eq!(text.parse::<Policy>().unwrap().to_string(), text);
        }
        assert_eq!("sticky".parse(), Ok(Policy::Sticky(STICKY_DEFAULT)));
        for text in [
            "",
            "nearest",
            "source:2s",
            "sticky:",
            "sticky:2h",
            "barrier:0ms",
            "hostgroup",
            "hostgroup:-1",
            "hostgroup:4294967295",
        ] {
            assert!(text.parse::<Policy>().is_err(), "{text}");
        }
    }

    #[test]
    fn policies_run_either_directly_or_through_proxysql() {
        for policy in Policy::all(None) {
            assert_eq!(policy.runs(true), policy == Policy::Causeway, "{policy}");
        }
        for policy in [Policy::Rules, Policy::Hostgroup(20)] {
            assert!(policy.runs(true) && !policy.runs(false), "{policy}");
        }
        assert!(Policy::all_through().iter().all(|policy| policy.runs(true)));
    }

    #[test]
    fn a_barrier_waits_as_long_as_causeway_but_never_forever() {
        let wait = |ms| Policy::Barrier(None).with_wait(Some(Duration::from_millis(ms)));
        assert_eq!(wait(80), Policy::Barrier(Some(Duration::from_millis(80))));
        assert_eq!(wait(0), Policy::Barrier(Some(Duration::from_millis(1))));
    }

    #[test]
    fn a_session_sticks_from_its_write_until_the_time_is_over() {
        let time = Duration::from_micros(100);
        assert!(!sticks(time, None, 0));
        assert!(sticks(time, Some(50), 149));
        assert!(!sticks(time, Some(50), 150));
    }
}
