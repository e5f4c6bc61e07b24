//! What differs between versions of ProxySQL, in one place.

use std::fmt;

use crate::fleet;

/// `@@version`, up to the patch level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The first number.
    pub major: u16,
    /// The second number.
    pub minor: u16,
    /// The third number.
    pub patch: u16,
}

/// A version by its numbers.
const fn version(major: u16, minor: u16, patch: u16) -> Version {
    Version {
        major,
        minor,
        patch,
    }
}

/// The oldest version whose tables Causeway knows.
pub const OLDEST: Version = version(2, 0, 9);

/// The oldest version whose source takes both locks of a LOAD in one order. In
/// 2.7.1 a LOAD and a GTID-gated query that meet stop the whole process, until
/// its watchdog ends it half a minute later (seen after 1 to 491 LOADs). Which
/// release between the two brought the change is not known, so all of them
/// count as affected.
const LOAD_AND_GATING: Version = version(3, 0, 9);

/// The first MySQL without `SHOW SLAVE STATUS`.
const WITHOUT_SLAVE_STATUS: fleet::Version = fleet::Version::new(8, 4, 0);
/// 2.7.1 asks for the lag with that statement (seen in its monitor's log). Which
/// release asks otherwise is not known; later major versions are given the
/// benefit of the doubt.
const SLAVE_STATUS_BEFORE: Version = version(3, 0, 0);

impl Version {
    /// The first MySQL whose replication lag this version cannot ask for.
    pub fn lag_unknown_from(self) -> fleet::Version {
        if self < SLAVE_STATUS_BEFORE {
            WITHOUT_SLAVE_STATUS
        } else {
            fleet::Version::new(u16::MAX, 0, 0)
        }
    }

    /// Reads `2.7.1-16-g2726c27` and the like.
    pub fn parse(text: &str) -> Option<Self> {
        let numbers = text.split(['-', '_', ' ']).next()?;
        let mut parts = numbers.split('.').map(str::parse::<u16>);
        let mut next = || parts.next()?.ok();
        Some(version(next()?, next()?, next()?))
    }

    /// A LOAD can stop the process when it meets GTID-gated queries.
    pub fn load_can_deadlock(self) -> bool {
        self < LOAD_AND_GATING
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared() {
        assert_eq!(Version::parse("2.7.1-16-g2726c27"), Some(version(2, 7, 1)));
        assert_eq!(Version::parse("3.0.9_codename"), Some(version(3, 0, 9)));
        assert_eq!(Version::parse("two"), None);
        assert_eq!(Version::parse("2.7"), None);
        assert!(version(2, 7, 1).load_can_deadlock());
        assert!(!version(3, 0, 9).load_can_deadlock());
        assert!(!version(3, 1, 0).load_can_deadlock());
    }
}
