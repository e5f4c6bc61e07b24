//! ProxySQL's own causal reads (`gtid_from_hostgroup`, `gtid_port`): can they
//! work, and do they get into the way of LOADs?

use std::collections::BTreeSet;

use super::servers::{load_servers, only};
use super::{Context, Notes, RULES, VARIABLES, list};
use crate::check::Level;
use crate::proxysql::rows::{Address, Key};
use crate::proxysql::survey::{Rule, Survey};

/// Shorter waits between two attempts to reach a feed are taken as none.
const RETRY_MSEC_MIN: u64 = 1000;
const RETRY: &str = "mysql-binlog_reader_connect_retry_msec";
const TRACK: &str = "mysql-default_session_track_gtids";
/// The port that GTID feeds use by default.
const FEED_PORT: u16 = 6020;

pub(super) fn look(survey: &Survey, context: &Context<'_>, notes: &mut Notes<'_>) {
    load_can_deadlock(survey, context, notes);
    busy_loop(survey, notes);
    if survey.gated().next().is_none() {
        return;
    }
    tracking(survey, context, notes);
    let destinations: BTreeSet<u32> = survey
        .gated()
        .filter_map(|(rule, _)| rule.destination)
        .collect();
    for hostgroup in &destinations {
        without_feed(survey, *hostgroup, notes);
    }
    held_connections(survey, &destinations, notes);
    first_questions(survey, notes);
}

fn load_can_deadlock(survey: &Survey, context: &Context<'_>, notes: &mut Notes<'_>) {
    let snapshot = &survey.snapshot;
    if !snapshot.version.load_can_deadlock() || !snapshot.gating.in_use() {
        return;
    }
    let managed = !context.settings.managed.hostgroups(1).is_empty();
    let (level, effect) = if managed {
        (
            Level::Error,
            "Causeway sends none, so hints and tiers stay as they are",
        )
    } else {
        (Level::Warning, "take care with your own")
    };
    let rules = list(survey.gated().map(|(rule, _)| rule.id));
    let mut steps = vec!["upgrade to ProxySQL 3.0.9 or later".to_owned()];
    if !rules.is_empty() {
        steps.push(format!(
            "or leave causal reads to Causeway: UPDATE mysql_query_rules SET \
             gtid_from_hostgroup=NULL WHERE rule_id IN ({rules}); {RULES}"
        ));
    }
    if snapshot.gating.ports > 0 {
        steps.push(format!(
            "then, in a quiet moment, UPDATE mysql_servers SET gtid_port=0; {}",
            load_servers(survey)
        ));
    }
    notes.add(
        level,
        format!(
            "queries are gated by GTID ({}), and in ProxySQL {} a LOAD of the servers can stop \
             the whole process when it meets one: {effect}",
            snapshot.gating, snapshot.version
        ),
        Some(steps.join("; ")),
    );
}

fn busy_loop(survey: &Survey, notes: &mut Notes<'_>) {
    let Some(retry) = survey.number(RETRY) else {
        return;
    };
    if survey.snapshot.gating.ports > 0 && retry < RETRY_MSEC_MIN {
        notes.warn(
            format!(
                "{RETRY} is {retry}: below {RETRY_MSEC_MIN} ProxySQL retries without a pause and \
                 takes a whole core while a feed is down"
            ),
            format!("SET {RETRY}={RETRY_MSEC_MIN}; {VARIABLES}"),
        );
    }
}

/// What decides is what the servers' connections report: by their own default,
/// or because ProxySQL asks for it.
fn tracking(survey: &Survey, context: &Context<'_>, notes: &mut Notes<'_>) {
    let own = |value: &str| value.eq_ignore_ascii_case("OWN_GTID");
    let Some(value) = survey.variable(TRACK).filter(|value| !own(value)) else {
        return;
    };
    let servers = context.tracking.iter();
    let silent: Vec<&String> = servers
        .filter(|(_, value)| !own(value))
        .map(|(name, _)| name)
        .collect();
    if silent.is_empty() && !context.tracking.is_empty() {
        return;
    }
    let rules = list(survey.gated().map(|(rule, _)| rule.id));
    let of = match &silent[..] {
        [] => "the servers were not seen to report them by themselves".to_owned(),
        silent => format!("session_track_gtids is not OWN_GTID on {}", list(silent)),
    };
    notes.error(
        format!(
            "{TRACK} is {value} and {of}: ProxySQL sees no GTID of a write, so that \
             gtid_from_hostgroup of rules {rules} holds nothing back"
        ),
        format!("SET {TRACK}='OWN_GTID'; {VARIABLES}"),
    );
}

/// A feed counts for all rows of its server, in whatever hostgroup it is named.
fn without_feed(survey: &Survey, hostgroup: u32, notes: &mut Notes<'_>) {
    let fed: BTreeSet<&Address> = survey
        .rows()
        .filter(|(_, row)| row.gtid_port > 0)
        .map(|(key, _)| &key.address)
        .collect();
    let keys = survey.rows().map(|(key, _)| key);
    let (with, without): (Vec<&Key>, Vec<&Key>) = keys
        .filter(|key| key.hostgroup == hostgroup)
        .partition(|key| fed.contains(&key.address));
    for key in without {
        let (level, effect) = if with.is_empty() {
            (Level::Error, "held-back queries wait for nothing, and fail")
        } else {
            (Level::Warning, "it gets no held-back query")
        };
        notes.add(
            level,
            format!("{key} has no gtid_port, but rules hold queries there back by GTID: {effect}"),
            Some(format!(
                "UPDATE mysql_servers SET gtid_port={FEED_PORT} WHERE {}; {}",
                only(key),
                load_servers(survey)
            )),
        );
    }
}

/// The gate is where a connection is taken: who holds one is not asked.
fn held_connections(survey: &Survey, readers: &BTreeSet<u32>, notes: &mut Notes<'_>) {
    let why = "a session that holds a connection is not gated";
    if survey.variable("mysql-multiplexing") == Some("false") {
        notes.error(
            format!("mysql-multiplexing is false: {why}, and every session holds its own"),
            format!("SET mysql-multiplexing='true'; {VARIABLES}"),
        );
    }
    let at_readers = |rule: &Rule| rule.destination.is_none_or(|to| readers.contains(&to));
    let keeps = |rule: &&Rule| rule.multiplex == Some(0) && at_readers(rule);
    let ids = list(survey.rules.iter().filter(keeps).map(|rule| rule.id));
    if !ids.is_empty() {
        notes.warn(
            format!("multiplex is 0 in rules {ids}: {why}, so later reads there may be stale"),
            format!(
                "UPDATE mysql_query_rules SET multiplex=NULL WHERE rule_id IN ({ids}); {RULES}"
            ),
        );
    }
}

/// `SELECT @@…`, which many drivers send first, holds a connection from then on.
fn first_questions(survey: &Survey, notes: &mut Notes<'_>) {
    let mut gated = survey.gated();
    let reads_elsewhere =
        |(rule, from): &(&Rule, u32)| rule.destination.is_some_and(|to| to != *from);
    let Some((rule, writer)) = gated.find(reads_elsewhere) else {
        return;
    };
    let asks = |text: &Option<String>| text.as_deref().is_some_and(|text| text.contains("@@"));
    let earlier = survey.rules.iter().take_while(|other| other.id < rule.id);
    let mut caught = earlier.filter(|other| asks(&other.digest) || asks(&other.pattern));
    if caught.any(|other| other.destination == Some(writer)) {
        return;
    }
    let id = rule.id;
    let free = (1..id).rev().find(|id| !survey.rule_ids.contains(id));
    let mend = match free {
        Some(free) => format!(
            "INSERT INTO mysql_query_rules (rule_id, active, match_digest, destination_hostgroup, \
             apply) VALUES ({free}, 1, '^SELECT @@', {writer}, 1); {RULES}"
        ),
        None => format!(
            "put a rule before rule {id} that sends match_digest '^SELECT @@' to hostgroup {writer}"
        ),
    };
    notes.warn(
        format!(
            "a driver that begins with SELECT @@... may hold a connection of the reader hostgroup \
             from then on, and reads on it are not gated by rule {id}"
        ),
        mend,
    );
}
