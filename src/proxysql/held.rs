//! Why a difference is not applied: what speaks against a LOAD. Pure.

use super::plan::Plan;
use super::rows::Snapshot;
use super::want::Managed;

/// Why a difference is not applied now.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "detail")]
pub enum Held {
    /// `mode = "plan"`.
    PlanOnly,
    /// Another Causeway holds the lease, or the source is not known.
    NoLease,
    /// A LOAD could stop this version, since queries are gated by GTID.
    Gated(String),
    /// Somebody prepares a change in memory.
    Staged(Vec<String>),
    /// Another node of the ProxySQL Cluster is written to.
    Cluster(String),
    /// A tier was put on a hostgroup that takes writes.
    WriterTier(u32),
}

impl Held {
    /// The name used in metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::PlanOnly => "plan_only",
            Self::NoLease => "no_lease",
            Self::Gated(_) => "gated",
            Self::Staged(_) => "staged",
            Self::Cluster(_) => "cluster",
            Self::WriterTier(_) => "writer_tier",
        }
    }

    /// All the names.
    pub const KINDS: [&'static str; 6] = [
        "plan_only",
        "no_lease",
        "gated",
        "staged",
        "cluster",
        "writer_tier",
    ];
}

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::PlanOnly => f.write_str("proxysql.mode is \"plan\""),
            Self::NoLease => f.write_str("another Causeway holds the lease, or there is no source"),
            Self::Gated(signs) => write!(
                f,
                "queries are gated by GTID ({signs}), and in this version of ProxySQL a LOAD \
                 that meets one can stop the whole process; hints in force and the feed go on"
            ),
            Self::Staged(rows) => write!(
                f,
                "somebody prepares a change in mysql_servers, which a LOAD would bring into \
                 force ({}): LOAD it, or SAVE MYSQL SERVERS TO MEMORY to withdraw it",
                rows.join("; ")
            ),
            Self::WriterTier(hostgroup) => write!(
                f,
                "hostgroup {hostgroup} is a tier, and takes writes: a tier must be a reader \
                 hostgroup, or one of its own"
            ),
            Self::Cluster(writer) => write!(f, "{writer} of the same cluster is written to"),
        }
    }
}

/// What speaks against a LOAD, whoever wants it.
pub(super) fn refused(snapshot: &Snapshot, managed: &Managed, todo: &Plan) -> Option<Held> {
    let mut tiers = managed.tiers.iter().map(|tier| tier.hostgroup);
    let takes_writes = |hostgroup: &u32| {
        let placements = &mut snapshot.placements.iter();
        placements.any(|placement| placement.holds(*hostgroup) && placement.reader != *hostgroup)
    };
    if let Some(hostgroup) = tiers.find(takes_writes) {
        return Some(Held::WriterTier(hostgroup));
    }
    if snapshot.version.load_can_deadlock() && snapshot.gating.in_use() {
        return Some(Held::Gated(snapshot.gating.to_string()));
    }
    (!todo.staged.is_empty()).then(|| Held::Staged(todo.staged.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxysql::plan::{Scope, plan};
    use crate::proxysql::rows::Gating;
    use crate::proxysql::testing::table;
    use crate::proxysql::tier::{LastResort, TierSpec};
    use crate::proxysql::version::Version;

    fn tier_on(hostgroup: u32) -> Managed {
        let second = std::time::Duration::from_secs(1);
        let tier = TierSpec {
            hostgroup,
            max_staleness: second,
            enter: second,
            dwell: second,
            min_readers: 1,
            last_resort: LastResort::Source,
            changes_per_minute_max: 1,
            max_replication_lag: 0,
        };
        Managed {
            hints: None,
            tiers: vec![tier],
        }
    }

    fn kind(
        text: &str,
        managed: &Managed,
        change: impl FnOnce(&mut Snapshot),
    ) -> Option<&'static str> {
        let (mut snapshot, wants) = table(text);
        change(&mut snapshot);
        let todo = plan(&snapshot, &wants, &Scope::default());
        assert!(!todo.is_empty(), "{text}");
        refused(&snapshot, managed, &todo).map(|held| held.kind())
    }

    const OUT: &str = "10>20
                       10 db1 | ONLINE | = |
                       20 db2 | ONLINE | = | off";

    #[test]
    fn nothing_speaks_against_a_plain_change() {
        assert_eq!(kind(OUT, &tier_on(20), |_| {}), None);
    }

    #[test]
    fn any_sign_of_gating_holds_back_where_a_load_can_deadlock() {
        let signs = [
            Gating {
                rules: vec![7],
                ..Gating::default()
            },
            Gating {
                ports: 1,
                ..Gating::default()
            },
            Gating {
                queries: true,
                ..Gating::default()
            },
        ];
        for gating in signs {
            let old = kind(OUT, &tier_on(20), |snapshot| {
                snapshot.gating = gating.clone();
            });
            assert_eq!(old, Some("gated"), "{gating:?}");
            let new = kind(OUT, &tier_on(20), |snapshot| {
                snapshot.gating = gating;
                snapshot.version = Version::parse("3.0.9").expect("a version");
            });
            assert_eq!(new, None);
        }
    }

    #[test]
    fn a_prepared_change_holds_back() {
        let prepared = "30 db9 | ONLINE w5 | ONLINE |";
        assert_eq!(
            kind(&format!("{OUT}\n{prepared}"), &tier_on(20), |_| {}),
            Some("staged")
        );
    }

    #[test]
    fn a_tier_that_takes_writes_is_refused() {
        let out = "10>20
                   10 db1 | ONLINE | = | off
                   20 db2 | ONLINE | = |";
        assert_eq!(kind(out, &tier_on(10), |_| {}), Some("writer_tier"));
    }
}
