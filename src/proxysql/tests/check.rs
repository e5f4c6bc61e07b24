use super::*;
use crate::config::Config;
use crate::proxysql::rows::Status;
use crate::proxysql::survey::testing::{add_rule, healthy, pair, put, set};
use crate::proxysql::survey::{MANAGED, Rule, User};
use crate::proxysql::version::Version;

const CONFIG: &str = r#"
[mysql]
user = "causeway"
servers = [
    { name = "db1", address = "10.0.0.1:3306" },
    { name = "db2", address = "10.0.0.2:3306" },
    { name = "db3", address = "10.0.0.3:3306" },
]
[proxysql]
user = "admin"
instances = [{ name = "px", address = "127.0.0.1:6032" }]
[proxysql.hints]
base = 9000
[[proxysql.tier]]
hostgroup = 20
max_staleness = "2s"
"#;

fn config(text: &str) -> Config {
    Config::parse(text, &|_| None).expect("the test's configuration parses")
}

fn tracking(value: &str) -> BTreeMap<String, String> {
    ["db1", "db2", "db3"]
        .map(|name| (name.to_owned(), value.to_owned()))
        .into()
}

fn look_with(survey: &Survey, text: &str, track: &str) -> Vec<Finding> {
    let config = config(text);
    let context = Context {
        instance: "px",
        settings: config.proxysql.as_ref().expect("a section [proxysql]"),
        servers: &config.servers,
        tracking: &tracking(track),
        newest: None,
    };
    let mut findings = findings(survey, &context);
    assert_eq!(findings.remove(0).level, Level::Good);
    findings
}

fn look(survey: &Survey) -> Vec<Finding> {
    look_with(survey, CONFIG, "OFF")
}

/// Breaks one thing in what is healthy; exactly one finding must name it.
fn breaks(level: Level, text: &str, mend: &str, change: impl FnOnce(&mut Survey)) {
    let mut survey = healthy();
    change(&mut survey);
    one(&look(&survey), level, text, mend);
}

fn one(findings: &[Finding], level: Level, text: &str, mend: &str) {
    let [finding] = findings else {
        panic!("one finding of {text:?}, not {findings:#?}");
    };
    assert!(finding.text.contains(text), "{text:?} in {finding:#?}");
    let mended = finding.mend.as_deref().unwrap_or_default();
    assert!(mended.contains(mend), "{mend:?} in {finding:#?}");
    assert_eq!((finding.level, &*finding.subject), (level, "px"));
}

/// What ProxySQL's own causal reads need, all there: on a version where LOADs
/// are safe.
fn gated() -> Survey {
    let mut survey = healthy();
    survey.snapshot.version = Version::parse("3.0.9").expect("a version");
    for address in ["10.0.0.2:3306", "10.0.0.3:3306"] {
        put(&mut survey, 20, address, |row| row.gtid_port = 6020);
    }
    add_rule(&mut survey, to_reader(5));
    let first = Rule {
        id: 3,
        digest: Some("^SELECT @@".to_owned()),
        destination: Some(10),
        ..Rule::default()
    };
    add_rule(&mut survey, first);
    set(&mut survey, "mysql-default_session_track_gtids", "OWN_GTID");
    survey
}

fn to_reader(id: u64) -> Rule {
    Rule {
        id,
        digest: Some("^SELECT".to_owned()),
        destination: Some(20),
        gtid_from: Some(10),
        ..Rule::default()
    }
}

fn breaks_gating(level: Level, text: &str, mend: &str, change: impl FnOnce(&mut Survey)) {
    let mut survey = gated();
    change(&mut survey);
    one(&look(&survey), level, text, mend);
}

#[test]
fn nothing_is_said_of_what_is_healthy() {
    assert_eq!(look(&healthy()), []);
    assert_eq!(look(&gated()), []);
}

#[test]
fn an_instance_that_cannot_be_read_is_named_with_the_way_out() {
    let mend = |error: &AdminError| {
        let finding = unusable("px", error);
        assert_eq!((finding.level, &*finding.subject), (Level::Error, "px"));
        finding.mend.expect("a way out")
    };
    let text = || "x".to_owned();
    assert!(mend(&AdminError::Unreachable(text())).contains("6032"));
    assert!(mend(&AdminError::Timeout).contains("runs"));
    assert!(mend(&AdminError::AccessDenied(text())).contains("proxysql.user"));
    let remote = "User 'admin' can only connect locally".to_owned();
    assert!(mend(&AdminError::AccessDenied(remote)).contains("LOAD ADMIN VARIABLES"));
    assert!(mend(&AdminError::NotProxySql(text())).contains("6032"));
    let old = Version::parse("1.4.16").expect("a version");
    assert!(mend(&AdminError::TooOld(old)).contains("upgrade"));
}

#[test]
fn hint_hostgroups_in_use_by_others_are_found() {
    let mend = "proxysql.hints.base";
    breaks(
        Level::Error,
        "9001, meant for hints to db1, is in use by a row",
        mend,
        |survey| {
            put(survey, 9001, "10.0.0.1:3306", |row| {
                row.comment = "reports".to_owned();
            });
        },
    );
    breaks(
        Level::Error,
        "9002, meant for hints to db2, is in use by a pair",
        mend,
        |survey| {
            survey.snapshot.placements.push(pair(9002, 77));
        },
    );
    breaks(
        Level::Error,
        "9003, meant for hints to db3, is in use by rule 4",
        mend,
        |survey| {
            let rule = Rule {
                id: 4,
                destination: Some(9003),
                ..Rule::default()
            };
            add_rule(survey, rule);
        },
    );
    breaks(Level::Error, "in use by user \"app\"", mend, |survey| {
        survey.users[0].default_hostgroup = 9001;
    });
    breaks(Level::Error, "in use by another table", mend, |survey| {
        survey.elsewhere.insert(9001);
    });
}

#[test]
fn rows_that_causeway_made_are_not_in_the_way() {
    let mut survey = healthy();
    put(&mut survey, 9001, "10.0.0.1:3306", |row| {
        row.comment = MANAGED.to_owned();
    });
    assert_eq!(look(&survey), []);
}

#[test]
fn a_tier_must_not_be_where_writers_are() {
    breaks(
        Level::Error,
        "as a tier it would lose the source",
        "hostgroup 30",
        |survey| {
            survey.snapshot.placements = vec![pair(20, 30)];
        },
    );
}

#[test]
fn a_tier_in_a_monitored_hostgroup_of_a_cluster_is_not_followed() {
    breaks(
        Level::Warning,
        "spreads SHUNNED as ONLINE",
        "of its own",
        |survey| {
            survey.snapshot.cluster = vec!["10.0.0.8:6032".to_owned()];
        },
    );
}

#[test]
fn changes_that_somebody_prepared_are_named() {
    breaks(
        Level::Warning,
        "max_connections 1000 -> 5",
        "SAVE MYSQL SERVERS TO MEMORY",
        |survey| {
            let row = survey.snapshot.memory.first_entry();
            row.expect("the writer's row").get_mut().max_connections = 5;
        },
    );
    // What Causeway itself wrote and did not get to load is no stranger's.
    let mut survey = healthy();
    let row = survey.snapshot.memory.last_entry();
    row.expect("a reader's row").get_mut().status = Status::Shunned;
    assert_eq!(look(&survey), []);
}

#[test]
fn a_server_that_proxysql_names_otherwise_is_found() {
    let mut survey = healthy();
    survey.snapshot.placements.clear();
    let renamed = CONFIG.replace("10.0.0.3:3306", "10.0.0.3:3307");
    put(&mut survey, 30, "localhost:3307", |_| ());
    let findings = look_with(&survey, &renamed, "OFF");
    // The old spelling is now a stranger in the tier.
    assert!(
        findings[1]
            .text
            .contains("hostgroup 20 10.0.0.3:3306 is not in mysql.servers")
    );
    one(
        &findings[..1],
        Level::Warning,
        "no row names db3 as 10.0.0.3:3307",
        "if localhost:3307 is the same server",
    );
    let unknown = CONFIG.replace(
        "]\n[proxysql]",
        "{name=\"db4\", address=\"10.0.0.4:3310\"}]\n[proxysql]",
    );
    one(
        &look_with(&healthy(), &unknown, "OFF"),
        Level::Warning,
        "no row names db4",
        "add 10.0.0.4:3310 to mysql_servers",
    );
}

#[test]
fn a_server_that_the_configuration_does_not_name_is_found() {
    let mend = "add 10.0.0.4:3306 to mysql.servers";
    breaks(
        Level::Error,
        "offers it whatever its staleness",
        mend,
        |survey| {
            put(survey, 20, "10.0.0.4:3306", |_| ());
        },
    );
    breaks(Level::Warning, "neither measures it", mend, |survey| {
        put(survey, 10, "10.0.0.4:3306", |_| ());
    });
    // What Causeway made for a server that is gone.
    let mend = "DELETE FROM mysql_servers WHERE hostgroup_id=9001 AND hostname='10.0.0.4'";
    breaks(Level::Error, "9001 10.0.0.4:3306", mend, |survey| {
        put(survey, 9001, "10.0.0.4:3306", |row| {
            row.comment = MANAGED.to_owned();
        });
    });
    // Another topology's servers are nobody's business here.
    let mut survey = healthy();
    survey.snapshot.placements.push(pair(110, 120));
    put(&mut survey, 110, "10.0.9.1:3306", |_| ());
    put(&mut survey, 120, "10.0.9.2:3306", |_| ());
    assert_eq!(look(&survey), []);
}

#[test]
fn a_reader_hostgroup_with_the_writer_in_it_is_found() {
    let text = CONFIG.replace("hostgroup = 20", "hostgroup = 120");
    let mut survey = healthy();
    put(&mut survey, 20, "10.0.0.1:3306", |_| ());
    let mend = "SET mysql-monitor_writer_is_also_reader='false'";
    let wanted = "reader hostgroup 20 offers the writer 10.0.0.1:3306";
    one(
        &look_with(&survey, &text, "OFF"),
        Level::Warning,
        wanted,
        mend,
    );
    set(&mut survey, "mysql-monitor_writer_is_also_reader", "false");
    let mend = "delete its row of hostgroup 20";
    one(
        &look_with(&survey, &text, "OFF"),
        Level::Warning,
        wanted,
        mend,
    );
    // Of a tier the source is taken out by Causeway.
    assert_eq!(look(&survey), []);
}

#[test]
fn a_lag_guard_as_tight_as_the_bound_is_found() {
    let mend =
        "SET max_replication_lag=60 WHERE hostgroup_id=20 AND max_replication_lag BETWEEN 1 AND 2";
    breaks(
        Level::Warning,
        "max_replication_lag of 10.0.0.2:3306",
        mend,
        |survey| {
            put(survey, 20, "10.0.0.2:3306", |row| {
                row.max_replication_lag = 2;
            });
        },
    );
    let name = "mysql-monitor_replication_lag_interval";
    breaks(Level::Warning, name, "=10000;", |survey| {
        set(survey, name, "60001");
    });
    let mut survey = healthy();
    put(&mut survey, 20, "10.0.0.2:3306", |row| {
        row.max_replication_lag = 3;
    });
    assert_eq!(look(&survey), []);
}

#[test]
fn a_guard_that_cannot_see_the_lag_is_found() {
    let config = config(CONFIG);
    let look = |newest, survey: &Survey| {
        let context = Context {
            instance: "px",
            settings: config.proxysql.as_ref().expect("a section [proxysql]"),
            servers: &config.servers,
            tracking: &tracking("OFF"),
            newest: Some(newest),
        };
        findings(survey, &context).split_off(1)
    };
    let mysql = crate::fleet::Version::new;
    let (old, new) = (mysql(8, 0, 40), mysql(8, 4, 0));
    let mut survey = healthy();
    assert_eq!(look(old, &survey), []);
    one(
        &look(new, &survey),
        Level::Warning,
        "SHOW SLAVE STATUS",
        "heartbeat",
    );
    let heartbeat = "mysql-monitor_replication_lag_use_percona_heartbeat";
    set(&mut survey, heartbeat, "percona.heartbeat");
    assert_eq!(look(new, &survey), []);
    let mut survey = healthy();
    survey.snapshot.version = Version::parse("3.0.9").expect("a version");
    assert_eq!(look(new, &survey), []);
}

#[test]
fn a_monitor_that_is_off_is_found() {
    let name = "mysql-monitor_enabled";
    breaks(Level::Warning, name, "'true'", |survey| {
        set(survey, name, "false");
    });
}

#[test]
fn comments_that_are_not_read_are_found() {
    let name = "mysql-query_digests";
    breaks(
        Level::Error,
        "hints in comments are ignored",
        name,
        |survey| {
            set(survey, name, "false");
        },
    );
    let name = "mysql-query_processor_first_comment_parsing";
    for (value, text) in [("0", "are ignored"), ("1", "override hints")] {
        breaks(Level::Error, text, "=2;", |survey| set(survey, name, value));
    }
    for value in ["2", "3"] {
        let mut survey = healthy();
        set(&mut survey, name, value);
        assert_eq!(look(&survey), []);
    }
}

#[test]
fn users_for_whom_hints_do_not_work_are_found() {
    let user = |change: fn(&mut User)| move |survey: &mut Survey| change(&mut survey.users[0]);
    let mend = "fast_forward=0 WHERE username IN ('o''neil')";
    breaks(
        Level::Warning,
        "fast_forward is 1",
        mend,
        user(|user| {
            user.name = "o'neil".to_owned();
            user.fast_forward = true;
        }),
    );
    let mend = "transaction_persistent=1 WHERE username IN ('app')";
    breaks(
        Level::Warning,
        "leaves it",
        mend,
        user(|user| user.transaction_persistent = false),
    );
}

#[test]
fn rules_that_do_not_see_hinted_queries_are_found() {
    let rule = Rule {
        id: 7,
        pattern: Some("^SELECT".to_owned()),
        ..Rule::default()
    };
    breaks(
        Level::Warning,
        "rule 7 matches \"^SELECT\"",
        "match_digest=match_pattern",
        |survey| {
            add_rule(survey, rule.clone());
        },
    );
    breaks(
        Level::Warning,
        "rule 7",
        "allow a leading comment",
        |survey| {
            add_rule(
                survey,
                Rule {
                    rewrites: true,
                    ..rule.clone()
                },
            );
        },
    );
    let mut survey = healthy();
    for (id, pattern) in [(1, "SELECT"), (2, "^(/\\*.*\\*/)?SELECT")] {
        let pattern = Some(pattern.to_owned());
        add_rule(
            &mut survey,
            Rule {
                id,
                pattern,
                ..Rule::default()
            },
        );
    }
    assert_eq!(look(&survey), []);
}

#[test]
fn rules_that_answer_from_the_cache_are_found() {
    breaks(
        Level::Warning,
        "rule 7 answers from ProxySQL's cache for 500 ms",
        "cache_ttl=NULL",
        |survey| {
            let cache_ttl_ms = Some(500);
            add_rule(
                survey,
                Rule {
                    id: 7,
                    cache_ttl_ms,
                    ..Rule::default()
                },
            );
        },
    );
}

#[test]
fn gating_on_a_version_that_it_can_stop_holds_loads() {
    let text = "Causeway sends none";
    let old = |survey: &mut Survey| survey.snapshot.version = Version::parse("2.7.1").expect("ok");
    let mend = "gtid_from_hostgroup=NULL WHERE rule_id IN (5)";
    breaks_gating(Level::Error, text, mend, old);
    breaks_gating(
        Level::Error,
        text,
        "UPDATE mysql_servers SET gtid_port=0",
        |survey| {
            old(survey);
            survey.rules.clear();
            survey.snapshot.gating.rules.clear();
        },
    );
    let without = CONFIG.split("[proxysql.hints]").next().expect("a start");
    let mut survey = gated();
    old(&mut survey);
    let findings = look_with(&survey, without, "OFF");
    one(
        &findings,
        Level::Warning,
        "take care with your own",
        "3.0.9",
    );
}

#[test]
fn gated_reads_need_a_session_tracker() {
    let name = "mysql-default_session_track_gtids";
    let mend = "SET mysql-default_session_track_gtids='OWN_GTID'";
    breaks_gating(
        Level::Error,
        "not OWN_GTID on db1, db2, db3",
        mend,
        |survey| {
            set(survey, name, "OFF");
        },
    );
    // The servers' own default does as well.
    let mut survey = gated();
    set(&mut survey, name, "OFF");
    assert_eq!(look_with(&survey, CONFIG, "OWN_GTID"), []);
}

#[test]
fn gated_reads_need_a_feed_of_every_server() {
    let mend = "gtid_port=6020 WHERE hostgroup_id=20 AND hostname='10.0.0.2' AND port=3306";
    let text = "hostgroup 20 10.0.0.2:3306 has no gtid_port";
    breaks_gating(Level::Warning, text, mend, |survey| {
        put(survey, 20, "10.0.0.2:3306", |_| ());
    });
    let mut survey = gated();
    put(&mut survey, 20, "10.0.0.2:3306", |_| ());
    put(&mut survey, 20, "10.0.0.3:3306", |_| ());
    let findings = look(&survey);
    assert_eq!(findings.len(), 2, "{findings:#?}");
    one(&findings[..1], Level::Error, "wait for nothing", mend);
    // A feed named in another hostgroup counts.
    let mut survey = gated();
    put(&mut survey, 20, "10.0.0.2:3306", |_| ());
    put(&mut survey, 30, "10.0.0.2:3306", |row| row.gtid_port = 6020);
    assert_eq!(look(&survey), []);
}

#[test]
fn a_feed_must_not_be_retried_without_a_pause() {
    let name = "mysql-binlog_reader_connect_retry_msec";
    breaks_gating(Level::Warning, "whole core", "=1000;", |survey| {
        set(survey, name, "999");
    });
}

#[test]
fn sessions_that_hold_a_reader_are_not_gated() {
    let why = "a session that holds a connection is not gated";
    let mend = "SET mysql-multiplexing='true'";
    breaks_gating(Level::Error, why, mend, |survey| {
        set(survey, "mysql-multiplexing", "false");
    });
    breaks_gating(
        Level::Warning,
        why,
        "multiplex=NULL WHERE rule_id IN (6)",
        |survey| {
            let multiplex = Some(0);
            add_rule(
                survey,
                Rule {
                    id: 6,
                    multiplex,
                    ..Rule::default()
                },
            );
        },
    );
    let insert = "(4, 1, '^SELECT @@', 10, 1)";
    let first = "begins with SELECT @@";
    breaks_gating(Level::Warning, first, insert, |survey| {
        survey.rules.retain(|rule| rule.id != 3);
    });
    breaks_gating(
        Level::Warning,
        first,
        "put a rule before rule 1",
        |survey| {
            survey.rules = vec![to_reader(1)];
        },
    );
}

#[test]
fn a_load_comes_after_what_the_monitor_moved() {
    let mut survey = healthy();
    let (key, row) = survey.snapshot.memory.pop_last().expect("a row");
    let moved = crate::proxysql::rows::Key {
        hostgroup: 10,
        ..key
    };
    survey.snapshot.memory.insert(moved, row);
    let load = servers::load_servers(&survey);
    assert!(
        load.contains("before all of it: SAVE MYSQL SERVERS TO MEMORY"),
        "{load}"
    );
    assert_eq!(servers::load_servers(&healthy()), SERVERS);
}
