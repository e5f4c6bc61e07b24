//! What a person's question needs of an instance, beside its servers: rules,
//! users, variables, and which hostgroups are spoken for.
//!
//! Pure: no connection, no clock. `look` fills it in.

use std::collections::{BTreeMap, BTreeSet};

use super::rows::{Address, Key, Row, Snapshot, Status};

/// The comment of rows that Causeway made.
pub(super) const MANAGED: &str = "managed by causeway";

/// An active rule of `runtime_mysql_query_rules`, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// `rule_id`.
    pub id: u64,
    /// `match_digest`.
    pub digest: Option<String>,
    /// `match_pattern`.
    pub pattern: Option<String>,
    /// It has a `replace_pattern`.
    pub rewrites: bool,
    /// `destination_hostgroup`.
    pub destination: Option<u32>,
    /// `mirror_hostgroup`.
    pub mirror: Option<u32>,
    /// `cache_ttl`, in milliseconds.
    pub cache_ttl_ms: Option<u64>,
    /// `multiplex`: 0 keeps the connection with the session.
    pub multiplex: Option<u32>,
    /// `gtid_from_hostgroup`.
    pub gtid_from: Option<u32>,
}

/// An active frontend user of `runtime_mysql_users`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// `username`.
    pub name: String,
    /// `default_hostgroup`.
    pub default_hostgroup: u32,
    /// A transaction stays where it began.
    pub transaction_persistent: bool,
    /// Nothing is looked at: no rules, no comments.
    pub fast_forward: bool,
}

/// One look at an instance, for a person's question.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Servers, pairs, cluster.
    pub snapshot: Snapshot,
    /// Variables in force, by name; only those that matter here, no secrets.
    pub variables: BTreeMap<String, String>,
    /// Active rules, by `rule_id`.
    pub rules: Vec<Rule>,
    /// Every `rule_id` in `mysql_query_rules`.
    pub rule_ids: BTreeSet<u64>,
    /// Active users.
    pub users: Vec<User>,
    /// Hostgroups that tables not looked at more closely name: Galera, Aurora,
    /// fast routing.
    pub elsewhere: BTreeSet<u32>,
}

impl Survey {
    /// A variable in force; `None` where this version does not have it.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// A number in force.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.variable(name)?.parse().ok()
    }

    /// Rules that hold queries back by GTID.
    pub fn gated(&self) -> impl Iterator<Item = (&Rule, u32)> {
        self.rules
            .iter()
            .filter_map(|rule| Some((rule, rule.gtid_from?)))
    }

    /// The rows in force of servers that are not on their way out.
    pub fn rows(&self) -> impl Iterator<Item = (&Key, &Row)> {
        let runtime = self.snapshot.runtime.iter();
        runtime.filter(|(_, row)| row.status != Status::OfflineHard)
    }

    /// Who uses `hostgroup`, other than rows that Causeway made; `None` when it
    /// is free.
    pub fn user_of(&self, hostgroup: u32) -> Option<String> {
        let placed = self.snapshot.is_placed(hostgroup);
        let placed = placed.then(|| "a pair of hostgroups that ProxySQL's monitor keeps".into());
        let of = Some(hostgroup);
        let ruled = |rule: &&Rule| [rule.destination, rule.mirror, rule.gtid_from].contains(&of);
        let rule = || Some(format!("rule {}", self.rules.iter().find(ruled)?.id));
        let defaults = |user: &&User| user.default_hostgroup == hostgroup;
        let user = || Some(format!("user {:?}", self.users.iter().find(defaults)?.name));
        let row = || Some(format!("a row of {}", self.foreign_row(hostgroup)?));
        let elsewhere = || {
            let named = self.elsewhere.contains(&hostgroup);
            named.then(|| "another table of hostgroups or of fast routing".to_owned())
        };
        placed
            .or_else(rule)
            .or_else(user)
            .or_else(row)
            .or_else(elsewhere)
    }

    /// A row of `hostgroup`, in force or prepared, that Causeway did not make.
    fn foreign_row(&self, hostgroup: u32) -> Option<&Address> {
        let (runtime, memory) = (&self.snapshot.runtime, &self.snapshot.memory);
        let foreign = |(key, row): &(&Key, &Row)| {
            key.hostgroup == hostgroup
                && row.comment != MANAGED
                && row.status != Status::OfflineHard
        };
        let found = runtime.iter().chain(memory).find(foreign);
        found.map(|(key, _)| &key.address)
    }
}

#[cfg(test)]
#[path = "tests/surveys.rs"]
pub(super) mod testing;
