use crate::config::{Config, ConfigError};
use crate::proxysql::controller::{ByHand, Mode};
use crate::proxysql::tier::{LastResort, TierSpec};
use crate::proxysql::want::{HintSpec, Managed};

use super::*;

/// A configuration with these lines in `[proxysql]` and these sections after it.
fn parse(lines: &str, sections: &str) -> Result<Config, ConfigError> {
    let instances = if lines.contains("instances") {
        ""
    } else {
        r#"instances = [{ name = "p1", address = "127.0.0.1:6032" }]"#
    };
    let text = format!(
        r#"
[mysql]
user = "causeway"
servers = [{{ name = "db1", address = "h:1" }}, {{ name = "db2", address = "h:2" }}]
[proxysql]
user = "radmin"
{instances}
{lines}
{sections}
"#
    );
    Config::parse(&text, &|name| (name == "SET").then(|| "from env".into()))
}

fn settings(lines: &str, sections: &str) -> Settings {
    let config =
        parse(lines, sections).unwrap_or_else(|error| panic!("{lines}{sections}: {error}"));
    config.proxysql.expect("the section is there")
}

fn tier(lines: &str) -> TierSpec {
    let section = format!("[[proxysql.tier]]\nhostgroup = 21\n{lines}");
    settings("", &section).managed.tiers[0].clone()
}

/// The error begins with `key:`, or is a syntax error that names it.
fn refused(lines: &str, sections: &str, key: &str) {
    let error = parse(lines, sections).expect_err("this must not parse");
    let text = error.to_string();
    let named = match &error {
        ConfigError::Value { key: found, .. } => found == key,
        ConfigError::Syntax(_) => text.contains(key) && text.contains("line"),
        ConfigError::Read { .. } => false,
    };
    assert!(named, "{lines}{sections} should name {key}: {text}");
}

fn refused_tier(lines: &str, key: &str) {
    refused(
        "",
        &format!("[[proxysql.tier]]\nhostgroup = 21\n{lines}"),
        key,
    );
}

#[test]
fn without_the_section_there_is_no_controller() {
    let text = "[mysql]\nuser = \"c\"\nservers = [{ name = \"a\", address = \"h:1\" }]";
    let config = Config::parse(text, &|_| None).expect("a minimal configuration");
    assert!(config.proxysql.is_none());
}

#[test]
fn the_defaults() {
    let found = settings("", "");
    let expected = Settings {
        instances: vec![AdminLogin {
            name: "p1".into(),
            address: "127.0.0.1:6032".into(),
            user: "radmin".into(),
            password: String::new(),
        }],
        mode: Mode::Apply,
        by_hand: ByHand::Repair,
        lease: "causeway.proxysql@{host}".into(),
        interval: Duration::from_secs(1),
        load_interval_min: Duration::from_millis(100),
        save_to_disk: true,
        managed: Managed::default(),
    };
    assert_eq!(found, expected);
}

#[test]
fn the_defaults_of_a_tier() {
    let expected = TierSpec {
        hostgroup: 21,
        max_staleness: Duration::from_secs(8),
        enter: Duration::from_secs(4),
        dwell: Duration::from_secs(2),
        min_readers: 1,
        last_resort: LastResort::Source,
        changes_per_minute_max: 30,
        max_replication_lag: 80,
    };
    assert_eq!(tier("max_staleness = \"8s\""), expected);
}

#[test]
fn every_key_is_read() {
    let found = settings(
        "password = \"p\"\nmode = \"plan\"\nby_hand = \"respect\"\nlease = \"l\"\n\
         interval = \"3s\"\nload_interval_min = \"200ms\"\nsave_to_disk = false",
        "[proxysql.hints]\nbase = 9000",
    );
    assert_eq!(found.instances[0].password, "p");
    assert_eq!((found.mode, found.by_hand), (Mode::Plan, ByHand::Respect));
    assert_eq!(found.lease, "l");
    assert_eq!(found.interval, Duration::from_secs(3));
    assert_eq!(found.load_interval_min, Duration::from_millis(200));
    assert!(!found.save_to_disk);
    assert_eq!(found.managed.hints, Some(HintSpec { base: 9000 }));
    let found = tier(
        "max_staleness = \"1s\"\nenter = \"1s\"\ndwell = \"5s\"\nmin_readers = 0\n\
         last_resort = \"least_stale\"\nchanges_per_minute_max = 1\nmax_replication_lag = \"5s\"",
    );
    let expected = TierSpec {
        hostgroup: 21,
        max_staleness: Duration::from_secs(1),
        enter: Duration::from_secs(1),
        dwell: Duration::from_secs(5),
        min_readers: 0,
        last_resort: LastResort::LeastStale,
        changes_per_minute_max: 1,
        max_replication_lag: 5,
    };
    assert_eq!(found, expected);
}

#[test]
fn the_guard_is_far_past_the_bound_and_in_whole_seconds() {
    let guard = |lines: &str| tier(lines).max_replication_lag;
    assert_eq!(guard("max_staleness = \"50ms\""), 60);
    assert_eq!(guard("max_staleness = \"30s\""), 300);
    assert_eq!(guard("max_staleness = \"360days\""), GUARD_MAX_S);
    let off = "max_staleness = \"1s\"\nmax_replication_lag = \"0s\"";
    assert_eq!(guard(off), 0);
    // Rounded up: 0 would mean never, and 1 would be tighter than the bound.
    let short = "max_staleness = \"100ms\"\nmax_replication_lag = \"500ms\"";
    assert_eq!(guard(short), 1);
    let odd = "max_staleness = \"1200ms\"\nmax_replication_lag = \"1500ms\"";
    assert_eq!(guard(odd), 2);
}

#[test]
fn the_password_comes_from_one_place() {
    assert_eq!(
        settings("password_env = \"SET\"", "").instances[0].password,
        "from env"
    );
    refused("password_env = \"UNSET\"", "", "proxysql.password_env");
    refused("password_file = \"/nowhere\"", "", "proxysql.password_file");
    refused(
        "password = \"a\"\npassword_env = \"SET\"",
        "",
        "proxysql.password",
    );
}

#[test]
fn instances_are_distinct_and_have_an_address() {
    let refused = |list: &str, key: &str| refused(&format!("instances = [{list}]"), "", key);
    let one = r#"{ name = "p", address = "h:1" }"#;
    refused("", "proxysql.instances");
    refused(
        &vec![one; INSTANCES_MAX + 1].join(","),
        "proxysql.instances",
    );
    refused(
        r#"{ name = "p", address = "h" }"#,
        "proxysql.instances.address",
    );
    refused(
        r#"{ name = "", address = "h:1" }"#,
        "proxysql.instances.name",
    );
    refused(
        r#"{ name = "p", address = "h:1" }, { name = "p", address = "h:2" }"#,
        "proxysql.instances.name",
    );
    refused(
        r#"{ name = "p", address = "h:1" }, { name = "q", address = "h:1" }"#,
        "proxysql.instances.address",
    );
    refused(r#"{ name = "p", address = "h:1", pass = "x" }"#, "pass");
}

#[test]
fn values_that_cannot_be_right_are_named() {
    refused("interval = \"0s\"", "", "proxysql.interval");
    refused(
        "load_interval_min = \"99ms\"",
        "",
        "proxysql.load_interval_min",
    );
    refused("lease = \"\"", "", "proxysql.lease");
    let long = format!("lease = \"{}\"", "ü".repeat(65));
    refused(&long, "", "proxysql.lease");
    assert_eq!(
        settings(&long.replacen('ü', "", 1), "").lease,
        "ü".repeat(64)
    );
    refused("mode = \"dry\"", "", "mode");
    refused("by_hand = \"undo\"", "", "by_hand");
    refused("interval = \"1 parsec\"", "", "interval");
    refused("intervall = \"1s\"", "", "intervall");
}

#[test]
fn tiers_that_cannot_be_right_are_named() {
    let with =
        |lines: &str, key: &str| refused_tier(&format!("max_staleness = \"1s\"\n{lines}"), key);
    refused_tier("", "max_staleness");
    refused_tier("max_staleness = \"9ms\"", "proxysql.tier.max_staleness");
    with("enter = \"0s\"", "proxysql.tier.enter");
    with("enter = \"1ns\"", "proxysql.tier.enter");
    with("enter = \"1001ms\"", "proxysql.tier.enter");
    with("dwell = \"0s\"", "proxysql.tier.dwell");
    with(
        "changes_per_minute_max = 0",
        "proxysql.tier.changes_per_minute_max",
    );
    with(
        "max_replication_lag = \"1s\"",
        "proxysql.tier.max_replication_lag",
    );
    with(
        "max_replication_lag = \"5y\"",
        "proxysql.tier.max_replication_lag",
    );
    with("last_resort = \"pray\"", "last_resort");
    with("enterr = \"1s\"", "enterr");
}

#[test]
fn spans_of_ages_are_refused_and_not_computed_with() {
    let age = "100000000000y";
    refused_tier(
        &format!("max_staleness = \"{age}\""),
        "proxysql.tier.max_staleness",
    );
    refused_tier(
        &format!("max_staleness = \"1s\"\ndwell = \"{age}\""),
        "proxysql.tier.dwell",
    );
    refused(&format!("interval = \"{age}\""), "", "proxysql.interval");
    refused(
        &format!("load_interval_min = \"{age}\""),
        "",
        "proxysql.load_interval_min",
    );
}

#[test]
fn hostgroups_do_not_overlap() {
    let tier = |hostgroup: u32| {
        format!("[[proxysql.tier]]\nhostgroup = {hostgroup}\nmax_staleness = \"1s\"\n")
    };
    let hints = "[proxysql.hints]\nbase = 9000\n";
    refused("", &(tier(21) + &tier(21)), "proxysql.tier.hostgroup");
    // Two servers: 9001 and 9002.
    refused(
        "",
        &(hints.to_owned() + &tier(9002)),
        "proxysql.tier.hostgroup",
    );
    let beside = settings("", &(hints.to_owned() + &tier(9000) + &tier(9003)));
    assert_eq!(beside.managed.tiers.len(), 2);
    let many: String = (1..=65).map(tier).collect();
    refused("", &many, "proxysql.tier");
}

#[test]
fn hints_fit_into_proxysqls_numbers() {
    let last = i32::MAX.unsigned_abs() - 2;
    let base = |base: u32| format!("[proxysql.hints]\nbase = {base}");
    assert_eq!(
        settings("", &base(last)).managed.hints,
        Some(HintSpec { base: last })
    );
    refused("", &base(last + 1), "proxysql.hints.base");
    refused("", &base(u32::MAX), "proxysql.hints.base");
    refused("", "[proxysql.hints]\nbase = -1", "base");
}

#[test]
fn the_source_is_looked_at_three_times_within_the_least_threshold() {
    let heartbeat = |sections: &str| {
        let config = parse("", sections).expect("it parses");
        config.observe.source_heartbeat
    };
    let tier = |hostgroup: u32, ms: u32| {
        format!("[[proxysql.tier]]\nhostgroup = {hostgroup}\nmax_staleness = \"{ms}ms\"\n")
    };
    let usual = heartbeat("");
    assert_eq!(heartbeat(&tier(21, 600_000)), usual);
    let both = tier(21, 60) + &tier(22, 30);
    assert_eq!(heartbeat(&both), Duration::from_millis(5).min(usual));
    assert_eq!(heartbeat(&tier(21, 10)), Duration::from_millis(5) / 3);
}
