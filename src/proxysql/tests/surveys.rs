//! Surveys to start tests from, as read from a ProxySQL 2.7.1.

use std::collections::{BTreeMap, BTreeSet};

use super::{Rule, Survey, User};
use crate::proxysql::rows::{Address, Gating, Key, Monitor, Placement, Row, Snapshot};
use crate::proxysql::version::Version;

/// A source and two replicas, in the pair 10/20, and nothing to complain of.
pub(crate) fn healthy() -> Survey {
    let mut survey = empty();
    put(&mut survey, 10, "10.0.0.1:3306", |_| ());
    put(&mut survey, 20, "10.0.0.2:3306", |_| ());
    put(&mut survey, 20, "10.0.0.3:3306", |_| ());
    survey.snapshot.placements = vec![pair(10, 20)];
    survey.users = vec![User {
        name: "app".to_owned(),
        default_hostgroup: 10,
        transaction_persistent: true,
        fast_forward: false,
    }];
    survey
}

/// A ProxySQL out of the box.
pub(crate) fn empty() -> Survey {
    let variables = [
        ("mysql-binlog_reader_connect_retry_msec", "3000"),
        ("mysql-default_session_track_gtids", "OFF"),
        ("mysql-monitor_enabled", "true"),
        ("mysql-monitor_replication_lag_interval", "10000"),
        ("mysql-monitor_username", "monitor"),
        ("mysql-monitor_writer_is_also_reader", "true"),
        ("mysql-multiplexing", "true"),
        ("mysql-query_digests", "true"),
    ];
    Survey {
        snapshot: Snapshot {
            version: Version::parse("2.7.1-16-g2726c27").expect("a version"),
            uptime_s: 100,
            loads: 1,
            checksum: "0x1".to_owned(),
            memory: BTreeMap::new(),
            runtime: BTreeMap::new(),
            placements: Vec::new(),
            gating: Gating::default(),
            cluster: Vec::new(),
        },
        variables: variables
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        rules: Vec::new(),
        rule_ids: BTreeSet::new(),
        users: Vec::new(),
        elsewhere: BTreeSet::new(),
    }
}

pub(crate) fn pair(writer: u32, reader: u32) -> Placement {
    Placement {
        monitor: Monitor::ReadOnly,
        writer,
        reader,
        others: Vec::new(),
    }
}

pub(crate) fn key(hostgroup: u32, address: &str) -> Key {
    let (host, port) = crate::fleet::split_address(address).expect("host:port");
    Key {
        hostgroup,
        address: Address {
            host: host.to_owned(),
            port,
        },
    }
}

/// Puts a row into memory and into force.
pub(crate) fn put(survey: &mut Survey, hostgroup: u32, address: &str, with: fn(&mut Row)) {
    let mut row = Row::default();
    with(&mut row);
    let key = key(hostgroup, address);
    survey.snapshot.memory.insert(key.clone(), row.clone());
    survey.snapshot.runtime.insert(key, row);
    let fed = survey.snapshot.runtime.values();
    survey.snapshot.gating.ports = fed.filter(|row| row.gtid_port > 0).count();
}

pub(crate) fn set(survey: &mut Survey, name: &str, value: &str) {
    survey.variables.insert(name.to_owned(), value.to_owned());
}

pub(crate) fn add_rule(survey: &mut Survey, rule: Rule) {
    survey.rule_ids.insert(rule.id);
    if rule.gtid_from.is_some() {
        survey.snapshot.gating.rules.push(rule.id);
    }
    survey.rules.push(rule);
    survey.rules.sort_by_key(|rule| rule.id);
}
