//! The `[proxysql]` section: raw values → settings.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use super::{ConfigError, positive, raw, secret, value};
use crate::observe;
use crate::proxysql::controller::Settings;
use crate::proxysql::tier::TierSpec;
use crate::proxysql::want::{HintSpec, Managed};
use crate::proxysql::{AdminLogin, LEASE_HOST, LEASE_MAX};

/// Most instances kept in step.
const INSTANCES_MAX: usize = 64;
/// Most tiers.
const TIERS_MAX: usize = 64;
/// The least bound on staleness that the observation can tell.
const BOUND_MIN: Duration = Duration::from_millis(10);
/// The least threshold for coming back, half the least bound: a third of it is
/// how often the source is looked at.
const ENTER_MIN: Duration = Duration::from_millis(5);
/// The longest span that anything here may take: a year.
const SPAN_MAX: Duration = Duration::from_secs(365 * 86_400);
/// The source is looked at this many times within the least bound, so that an
/// idle fleet does not look stale.
const LOOKS_PER_BOUND: u32 = 3;
/// ProxySQL's own guard: this many times the bound, and at least as long as its
/// coarse monitor needs. A replica is out through Causeway long before.
const GUARD_FACTOR: u32 = 10;
const GUARD_MIN: Duration = Duration::from_secs(60);
/// Largest `max_replication_lag` of ProxySQL, in seconds.
const GUARD_MAX_S: u32 = 126_144_000;
/// Between two LOADs there is at least this.
const LOAD_INTERVAL_FLOOR: Duration = Duration::from_millis(100);

pub(super) fn resolve(
    raw: raw::ProxySql,
    servers: usize,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Settings, ConfigError> {
    let password = secret(
        "proxysql.password",
        raw.password,
        raw.password_env,
        raw.password_file,
        env,
    )?;
    let instances = instances(raw.instances, &raw.user, &password.unwrap_or_default())?;
    span("proxysql.interval", raw.interval)?;
    span("proxysql.load_interval_min", raw.load_interval_min)?;
    if raw.load_interval_min < LOAD_INTERVAL_FLOOR {
        return Err(value(
            "proxysql.load_interval_min",
            "must be 100ms or longer",
        ));
    }
    let lease = raw.lease.unwrap_or_else(|| lease(&instances));
    if lease.is_empty() || lease.chars().count() > LEASE_MAX {
        let problem = format!("must be a lock name of 1 to {LEASE_MAX} characters");
        return Err(value("proxysql.lease", &problem));
    }
    let managed = Managed {
        hints: raw.hints.map(|hints| HintSpec { base: hints.base }),
        tiers: raw.tier.iter().map(tier).collect::<Result<_, _>>()?,
    };
    without_overlap(&managed, servers)?;
    Ok(Settings {
        instances,
        mode: raw.mode,
        by_hand: raw.by_hand,
        lease,
        interval: raw.interval,
        load_interval_min: raw.load_interval_min,
        save_to_disk: raw.save_to_disk,
        managed,
    })
}

/// A bound can only be kept, and an idle replica only be called fresh, when the
/// source is looked at several times within it.
pub(super) fn look_often_enough(settings: &Settings, observe: &mut observe::Settings) {
    let bounds = settings.managed.tiers.iter().map(|tier| tier.enter);
    if let Some(least) = bounds.min() {
        observe.source_heartbeat = observe.source_heartbeat.min(least / LOOKS_PER_BOUND);
    }
}

/// Causeways that write to the same instances must share a lease. An instance on
/// a loopback address is another one on every host.
fn lease(instances: &[AdminLogin]) -> String {
    let is_here = |login: &AdminLogin| {
        let host = crate::fleet::split_address(&login.address).map_or("", |(host, _)| host);
        let ip = host.parse::<std::net::IpAddr>();
        host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
    };
    if instances.iter().all(is_here) {
        format!("causeway.proxysql@{LEASE_HOST}")
    } else {
        "causeway.proxysql".to_owned()
    }
}

fn instances(
    raw: Vec<raw::Instance>,
    user: &str,
    password: &str,
) -> Result<Vec<AdminLogin>, ConfigError> {
    if raw.is_empty() || raw.len() > INSTANCES_MAX {
        let problem = format!("name 1 to {INSTANCES_MAX} instances");
        return Err(value("proxysql.instances", &problem));
    }
    let (mut names, mut addresses) = (HashSet::new(), HashSet::new());
    for instance in &raw {
        if instance.name.is_empty() {
            return Err(value("proxysql.instances.name", "is empty"));
        }
        if crate::fleet::split_address(&instance.address).is_none() {
            let problem = format!(
                "{:?} of {} is not host:port",
                instance.address, instance.name
            );
            return Err(value("proxysql.instances.address", &problem));
        }
        if !names.insert(&instance.name) {
            let problem = format!("{:?} is used twice", instance.name);
            return Err(value("proxysql.instances.name", &problem));
        }
        if !addresses.insert(&instance.address) {
            let problem = format!("{:?} is used twice", instance.address);
            return Err(value("proxysql.instances.address", &problem));
        }
    }
    let login = |instance: raw::Instance| AdminLogin {
        name: instance.name,
        address: instance.address,
        user: user.to_owned(),
        password: password.to_owned(),
    };
    Ok(raw.into_iter().map(login).collect())
}

fn tier(raw: &raw::Tier) -> Result<TierSpec, ConfigError> {
    let key = |name: &str| format!("proxysql.tier.{name}");
    if raw.max_staleness < BOUND_MIN {
        let problem = format!("of hostgroup {} must be 10ms or longer", raw.hostgroup);
        return Err(value(&key("max_staleness"), &problem));
    }
    span(&key("max_staleness"), raw.max_staleness)?;
    span(&key("dwell"), raw.dwell)?;
    let enter = raw.enter.unwrap_or(raw.max_staleness / 2);
    if enter > raw.max_staleness || enter < ENTER_MIN {
        let problem = "must be 5ms or longer and at most max_staleness";
        return Err(value(&key("enter"), problem));
    }
    let guard = guard(raw)?;
    if raw.changes_per_minute_max == 0 {
        return Err(value(&key("changes_per_minute_max"), "must be at least 1"));
    }
    Ok(TierSpec {
        hostgroup: raw.hostgroup,
        max_staleness: raw.max_staleness,
        enter,
        dwell: raw.dwell,
        min_readers: raw.min_readers,
        last_resort: raw.last_resort,
        changes_per_minute_max: raw.changes_per_minute_max,
        max_replication_lag: guard,
    })
}

/// `max_replication_lag` in ProxySQL's whole seconds, rounded up: rounded down it
/// could be tighter than the bound, or never.
fn guard(raw: &raw::Tier) -> Result<u32, ConfigError> {
    let key = "proxysql.tier.max_replication_lag";
    let longest = Duration::from_secs(GUARD_MAX_S.into());
    let usual = (raw.max_staleness * GUARD_FACTOR).clamp(GUARD_MIN, longest);
    let guard = raw.max_replication_lag.unwrap_or(usual);
    if !guard.is_zero() && guard <= raw.max_staleness {
        let problem = "must be 0 or longer than max_staleness: it is the coarse guard for the \
                       time when Causeway is gone";
        return Err(value(key, problem));
    }
    let seconds = guard.as_secs() + u64::from(guard.subsec_nanos() > 0);
    u32::try_from(seconds)
        .ok()
        .filter(|seconds| *seconds <= GUARD_MAX_S)
        .ok_or_else(|| value(key, "is longer than ProxySQL accepts"))
}

/// A span that can be computed with.
fn span(key: &str, span: Duration) -> Result<(), ConfigError> {
    positive(key, span)?;
    if span > SPAN_MAX {
        return Err(value(key, "must be at most a year"));
    }
    Ok(())
}

fn without_overlap(managed: &Managed, servers: usize) -> Result<(), ConfigError> {
    if managed.tiers.len() > TIERS_MAX {
        let problem = format!("has more than {TIERS_MAX} entries");
        return Err(value("proxysql.tier", &problem));
    }
    let mut seen = BTreeSet::new();
    if let Some(hints) = managed.hints {
        let last = u32::try_from(servers)
            .ok()
            .and_then(|n| hints.base.checked_add(n));
        // Hostgroups are signed integers in ProxySQL.
        let fits = last.is_some_and(|last| i32::try_from(last).is_ok());
        if !fits {
            return Err(value(
                "proxysql.hints.base",
                "leaves no room for the servers",
            ));
        }
        seen = Managed {
            hints: Some(hints),
            tiers: Vec::new(),
        }
        .hostgroups(servers);
    }
    for tier in &managed.tiers {
        if !seen.insert(tier.hostgroup) {
            let problem = format!("{} is used twice", tier.hostgroup);
            return Err(value("proxysql.tier.hostgroup", &problem));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
