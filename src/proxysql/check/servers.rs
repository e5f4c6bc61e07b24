//! Do ProxySQL and the configuration name the same servers, and do ProxySQL's
//! own monitors leave the managed rows to Causeway?

use std::collections::BTreeSet;

use super::{Context, Notes, SERVERS, VARIABLES, list};
use crate::check::Level;
use crate::proxysql::rows::{Address, Key, Row, Status};
use crate::proxysql::statement::quoted;
use crate::proxysql::survey::{MANAGED, Survey};
use crate::proxysql::tier::TierSpec;

pub(super) fn look(survey: &Survey, context: &Context<'_>, notes: &mut Notes<'_>) {
    unknown_to_proxysql(survey, context, notes);
    unknown_to_causeway(survey, context, notes);
    writers_as_readers(survey, context, notes);
    for tier in &context.settings.managed.tiers {
        lag_guard(survey, context, tier, notes);
    }
    monitor(survey, context, notes);
}

fn addresses(context: &Context<'_>) -> BTreeSet<Address> {
    context.servers.iter().map(Address::of).collect()
}

/// Rows that somebody else than Causeway made.
fn theirs(survey: &Survey) -> impl Iterator<Item = (&Key, &Row)> {
    survey.rows().filter(|(_, row)| row.comment != MANAGED)
}

fn unknown_to_proxysql(survey: &Survey, context: &Context<'_>, notes: &mut Notes<'_>) {
    let named: BTreeSet<&Address> = theirs(survey).map(|(key, _)| &key.address).collect();
    let ours = addresses(context);
    for server in context.servers {
        let address = Address::of(server);
        if named.contains(&address) {
            continue;
        }
        // The same port on a host that is not ours may be the same server.
        let like = |other: &&&Address| other.port == address.port && !ours.contains(**other);
        let like = list(named.iter().filter(like));
        let mend = if like.is_empty() {
            format!("add {address} to mysql_servers, or take it out of mysql.servers")
        } else {
            format!("if {like} is the same server, write it so in mysql.servers")
        };
        notes.warn(
            format!(
                "no row names {} as {address}: ProxySQL compares names as text, so rows for it \
                 would open connections of their own, and no tier offers it",
                server.name
            ),
            mend,
        );
    }
}

fn unknown_to_causeway(survey: &Survey, context: &Context<'_>, notes: &mut Notes<'_>) {
    let ours = addresses(context);
    // Pairs that share no server with the configuration serve another topology.
    let shared = |hostgroup: u32| {
        let pair = survey
            .snapshot
            .placements
            .iter()
            .find(|pair| pair.holds(hostgroup));
        pair.is_some_and(|pair| {
            let mut rows = survey.rows();
            rows.any(|(key, _)| pair.holds(key.hostgroup) && ours.contains(&key.address))
        })
    };
    let strangers = survey
        .rows()
        .filter(|(key, _)| !ours.contains(&key.address));
    for (key, row) in strangers {
        let managed = context.settings.managed.hostgroups(context.servers.len());
        let (level, what) = if managed.contains(&key.hostgroup) {
            (
                Level::Error,
                "the managed hostgroup offers it whatever its staleness",
            )
        } else if shared(key.hostgroup) {
            (
                Level::Warning,
                "Causeway neither measures it nor sends reads to it",
            )
        } else {
            continue;
        };
        notes.add(
            level,
            format!("{key} is not in mysql.servers: {what}"),
            Some(if row.comment == MANAGED {
                let load = load_servers(survey);
                format!(
                    "if it is gone for good: DELETE FROM mysql_servers WHERE {}; {load}",
                    only(key)
                )
            } else {
                format!("add {} to mysql.servers, spelled so", key.address)
            }),
        );
    }
}

fn writers_as_readers(survey: &Survey, context: &Context<'_>, notes: &mut Notes<'_>) {
    let tiers = &context.settings.managed.tiers;
    let is_tier = |hostgroup| tiers.iter().any(|tier| tier.hostgroup == hostgroup);
    let online = |hostgroup: u32| {
        let rows = survey.rows();
        let rows = rows
            .filter(move |(key, row)| key.hostgroup == hostgroup && row.status == Status::Online);
        rows.map(|(key, _)| &key.address).collect::<BTreeSet<_>>()
    };
    for pair in survey
        .snapshot
        .placements
        .iter()
        .filter(|pair| !is_tier(pair.reader))
    {
        let (writers, readers) = (online(pair.writer), online(pair.reader));
        let both: Vec<_> = writers.intersection(&readers).collect();
        if both.is_empty() || readers.len() == both.len() {
            continue;
        }
        let (reader, both) = (pair.reader, list(both));
        notes.warn(
            format!(
                "reader hostgroup {reader} offers the writer {both} too: it takes a share of the \
                 reads there"
            ),
            match survey.variable("mysql-monitor_writer_is_also_reader") {
                Some("true") => format!(
                    "if that is not wanted: SET mysql-monitor_writer_is_also_reader='false'; \
                     {VARIABLES} and delete its row of hostgroup {reader}; or make the hostgroup \
                     a tier"
                ),
                _ => format!("if that is not wanted: delete its row of hostgroup {reader}"),
            },
        );
    }
}

/// ProxySQL's own lag monitor must be the coarser one, or both move the server.
fn lag_guard(survey: &Survey, context: &Context<'_>, tier: &TierSpec, notes: &mut Notes<'_>) {
    let ours = addresses(context);
    let bound = tier.max_staleness;
    let tight: Vec<&Key> = survey
        .rows()
        .filter(|(key, row)| {
            key.hostgroup == tier.hostgroup
                && ours.contains(&key.address)
                && row.max_replication_lag > 0
                && u128::from(row.max_replication_lag) * 1000 <= bound.as_millis()
        })
        .map(|(key, _)| key)
        .collect();
    if !tight.is_empty() {
        notes.warn(
            format!(
                "max_replication_lag of {} is at or below the tier's max_staleness of {bound:?}: \
                 ProxySQL's coarse monitor takes the server out before Causeway would, and ends \
                 its queries",
                list(tight.iter().map(|key| &key.address))
            ),
            format!(
                "UPDATE mysql_servers SET max_replication_lag={} WHERE hostgroup_id={} AND \
                 max_replication_lag BETWEEN 1 AND {}; {}",
                tier.max_replication_lag,
                tier.hostgroup,
                bound.as_secs(),
                load_servers(survey)
            ),
        );
    }
    lag_interval(survey, tier, notes);
    blind_guard(survey, context, tier, notes);
}

/// Where ProxySQL cannot ask for the lag, its guard never acts.
fn blind_guard(survey: &Survey, context: &Context<'_>, tier: &TierSpec, notes: &mut Notes<'_>) {
    let heartbeat = survey
        .variable("mysql-monitor_replication_lag_use_percona_heartbeat")
        .is_some_and(|table| !table.is_empty());
    let unheard = context
        .newest
        .is_some_and(|server| server >= survey.snapshot.version.lag_unknown_from());
    if unheard && !heartbeat && tier.max_replication_lag > 0 {
        notes.warn(
            format!(
                "ProxySQL {} asks for the lag with SHOW SLAVE STATUS, which servers from MySQL \
                 8.4 on do not know: nothing guards tier {} when Causeway is gone",
                survey.snapshot.version, tier.hostgroup
            ),
            format!(
                "run a heartbeat (pt-heartbeat), and SET \
                 mysql-monitor_replication_lag_use_percona_heartbeat='percona.heartbeat'; \
                 {VARIABLES}"
            ),
        );
    }
}

fn lag_interval(survey: &Survey, tier: &TierSpec, notes: &mut Notes<'_>) {
    let interval = survey.number("mysql-monitor_replication_lag_interval");
    let guard_ms = u64::from(tier.max_replication_lag) * 1000;
    if let Some(interval) = interval.filter(|interval| guard_ms > 0 && *interval > guard_ms) {
        notes.warn(
            format!(
                "mysql-monitor_replication_lag_interval is {interval} ms, longer than the guard \
                 of tier {} ({} s) for when Causeway is gone",
                tier.hostgroup, tier.max_replication_lag
            ),
            format!("SET mysql-monitor_replication_lag_interval=10000; {VARIABLES}"),
        );
    }
}

fn monitor(survey: &Survey, context: &Context<'_>, notes: &mut Notes<'_>) {
    let relied_on =
        !survey.snapshot.placements.is_empty() || !context.settings.managed.tiers.is_empty();
    if relied_on && survey.variable("mysql-monitor_enabled") == Some("false") {
        notes.warn(
            "mysql-monitor_enabled is false: ProxySQL follows no failover, and nothing guards \
             the tiers when Causeway is gone",
            format!("SET mysql-monitor_enabled='true'; {VARIABLES}"),
        );
    }
}

/// A LOAD brings all of memory into force: where a monitor moved servers since,
/// memory must follow first.
pub(super) fn load_servers(survey: &Survey) -> String {
    let rows = survey.rows().map(|(key, _)| key);
    if rows.eq(survey.snapshot.memory.keys()) {
        SERVERS.to_owned()
    } else {
        format!(
            "{SERVERS} (before all of it: SAVE MYSQL SERVERS TO MEMORY; the monitor moved servers)"
        )
    }
}

/// `hostgroup_id=… AND hostname=… AND port=…`.
pub(super) fn only(key: &Key) -> String {
    format!(
        "hostgroup_id={} AND hostname={} AND port={}",
        key.hostgroup,
        quoted(&key.address.host),
        key.address.port
    )
}
