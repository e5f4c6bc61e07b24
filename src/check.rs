//! Checks a configuration against the servers it names: can we log in, may we
//! see what we must see, and are the servers set up so that promises can be
//! kept? The same is asked of every ProxySQL that is to be kept in step. Each
//! finding says what to do about it.

mod instances;

use std::collections::BTreeMap;
use std::sync::Arc;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use serde::Serialize;

use crate::clock;
use crate::config::Config;
use crate::fleet::{
    Event, Fault, Fleet, FleetView, Identity, Role, Sample, ServerIx, ServerSpec, Status,
};
use crate::gtid::GtidSet;
use crate::observe::connect::{connect, fault, within};
use crate::observe::statements::Statements;
use crate::observe::{Login, poll};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As it should be.
    Good,
    /// Works, but worth a look.
    Warning,
    /// Must be mended.
    Error,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// The name of a server or of a ProxySQL, or `fleet`.
    pub subject: String,
    /// What was found.
    pub text: String,
    /// What mends it, a statement where there is one.
    pub mend: Option<String>,
}

/// Everything that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// No finding is an error.
    pub passed: bool,
    /// The findings: server by server, the fleet, then every ProxySQL.
    pub findings: Vec<Finding>,
}

/// What was learnt of one server.
struct Seen {
    identity: Identity,
    status: Status,
    executed: GtidSet,
    settings: Settings,
}

struct Settings {
    enforce_gtid_consistency: String,
    log_bin: bool,
    super_read_only: bool,
    session_track_gtids: String,
}

/// Looks at every server at once and reports.
pub async fn check(config: &Config) -> Report {
    let login = Arc::new(config.login.clone());
    let deadline = config.observe.query_timeout;
    let looks = config.servers.iter().map(|spec| {
        let (address, login) = (spec.address.clone(), Arc::clone(&login));
        tokio::spawn(async move { look(&address, &login, deadline).await })
    });
    let mut seen = Vec::new();
    for look in looks.collect::<Vec<_>>() {
        seen.push(
            look.await
                .unwrap_or_else(|panic| Err(Fault::Unreadable(panic.to_string()))),
        );
    }
    let mut findings = Vec::new();
    let view = assemble(&config.servers, &seen);
    for (server, seen) in view.servers.iter().zip(&seen) {
        match seen {
            Ok(seen) => server_findings(&server.info.name, server.role, seen, &mut findings),
            Err(fault) => findings.push(unusable(&server.info.name, fault, &config.login)),
        }
    }
    findings.push(fleet_finding(&view));
    if let Some(settings) = &config.proxysql {
        let tracking = tracking(&config.servers, &seen);
        let answered = seen.iter().flatten().map(|seen| seen.identity.version);
        let newest = answered.max();
        findings.extend(instances::look(settings, &config.servers, &tracking, newest).await);
    }
    Report {
        passed: findings.iter().all(|finding| finding.level != Level::Error),
        findings,
    }
}

/// `session_track_gtids` of the servers that answered.
fn tracking(specs: &[ServerSpec], seen: &[Result<Seen, Fault>]) -> BTreeMap<String, String> {
    let answered = specs.iter().zip(seen);
    answered
        .filter_map(|(spec, seen)| {
            let seen = seen.as_ref().ok()?;
            Some((spec.name.clone(), seen.settings.session_track_gtids.clone()))
        })
        .collect()
}

async fn look(address: &str, login: &Login, deadline: std::time::Duration) -> Result<Seen, Fault> {
    let (mut conn, identity) = connect(address, login, deadline).await?;
    within(deadline, async {
        let status = poll::status(&mut conn, Statements::of(identity.version)).await?;
        let executed: Option<String> = conn
            .query_first("SELECT @@GLOBAL.gtid_executed")
            .await
            .map_err(|error| fault(&error))?;
        let executed = executed
            .ok_or_else(|| Fault::Unreadable("gtid_executed is NULL".into()))?
            .parse()
            .map_err(|error| Fault::Unreadable(format!("gtid_executed: {error}")))?;
        Ok(Seen {
            identity,
            status,
            executed,
            settings: settings(&mut conn).await?,
        })
    })
    .await
}

async fn settings(conn: &mut Conn) -> Result<Settings, Fault> {
    let query = "SELECT @@GLOBAL.enforce_gtid_consistency, @@GLOBAL.log_bin, \
                 @@GLOBAL.super_read_only, @@GLOBAL.session_track_gtids";
    let row: Option<(String, i64, i64, String)> = conn
        .query_first(query)
        .await
        .map_err(|error| fault(&error))?;
    let (enforce_gtid_consistency, log_bin, super_read_only, session_track_gtids) =
        row.ok_or_else(|| Fault::Unreadable("no row of settings".into()))?;
    Ok(Settings {
        enforce_gtid_consistency,
        log_bin: log_bin != 0,
        super_read_only: super_read_only != 0,
        session_track_gtids,
    })
}

/// Finds the roles the way `serve` does.
fn assemble(specs: &[ServerSpec], seen: &[Result<Seen, Fault>]) -> FleetView {
    let mut fleet = Fleet::new(specs);
    let now = clock::now();
    for (i, seen) in seen.iter().enumerate() {
        let ix = ServerIx(u16::try_from(i).expect("a fleet has at most 65,536 servers"));
        let Ok(seen) = seen else { continue };
        let server = seen.identity.uuid;
        let sample = Sample {
            server,
            owned: None,
            set: Arc::new(seen.executed.clone()),
            asked: now,
            answered: now,
            read_only: None,
        };
        fleet.apply(ix, Event::Identified(seen.identity.clone()), now);
        fleet.apply(ix, Event::Executed(sample), now);
        let polled = Event::Polled {
            server,
            status: seen.status.clone(),
            asked: now,
        };
        fleet.apply(ix, polled, now);
    }
    fleet.view()
}

fn unusable(name: &str, fault: &Fault, login: &Login) -> Finding {
    let user = &login.user;
    let mend = match fault {
        Fault::AccessDenied(_) => Some(format!("check mysql.user and its password, or CREATE USER '{user}'@'%' IDENTIFIED BY '...';")),
        Fault::MissingPrivilege(_) => Some(format!("GRANT REPLICATION CLIENT ON *.* TO '{user}'@'%'; GRANT SELECT ON performance_schema.* TO '{user}'@'%';")),
        Fault::GtidModeOff(_) => Some("SET PERSIST enforce_gtid_consistency=ON; then step by step: SET PERSIST gtid_mode=OFF_PERMISSIVE; ON_PERMISSIVE; ON;".to_owned()),
        Fault::NotMySql(_) => Some("take it out of mysql.servers".to_owned()),
        Fault::TooOld(_) => Some("upgrade the server to MySQL 8.0 or later".to_owned()),
        Fault::Unreachable(_) | Fault::Timeout(_) => Some("check the address, the network and that the server runs".to_owned()),
        _ => None,
    };
    Finding {
        level: Level::Error,
        subject: name.to_owned(),
        text: fault.to_string(),
        mend,
    }
}

fn server_findings(name: &str, role: Role, seen: &Seen, findings: &mut Vec<Finding>) {
    let mut add = |level, text: String, mend: Option<&str>| {
        findings.push(Finding {
            level,
            subject: name.to_owned(),
            text,
            mend: mend.map(str::to_owned),
        });
    };
    add(
        Level::Good,
        format!(
            "MySQL {}, {role}, login and privileges are right",
            seen.identity.version
        ),
        None,
    );
    if seen.settings.enforce_gtid_consistency != "ON" {
        add(
            Level::Warning,
            format!(
                "enforce_gtid_consistency is {}",
                seen.settings.enforce_gtid_consistency
            ),
            Some("SET PERSIST enforce_gtid_consistency=ON;"),
        );
    }
    match role {
        Role::Source if !seen.settings.log_bin => add(
            Level::Error,
            "the source writes no binary log, so that its commits have no GTID".to_owned(),
            Some("set log_bin and restart"),
        ),
        Role::Replica => replica_findings(seen, &mut add),
        _ => {}
    }
}

fn replica_findings(seen: &Seen, add: &mut impl FnMut(Level, String, Option<&str>)) {
    if !seen.settings.super_read_only {
        add(
            Level::Warning,
            "super_read_only is OFF on a replica: a stray write there makes errant transactions"
                .to_owned(),
            Some("SET PERSIST super_read_only=ON;"),
        );
    }
    if seen.status.preserve_commit_order == Some(false) {
        add(
            Level::Warning,
            "replica_preserve_commit_order is OFF: reads may see later writes without earlier ones"
                .to_owned(),
            Some("SET PERSIST replica_preserve_commit_order=ON; and restart the applier"),
        );
    }
    for channel in &seen.status.channels {
        if !channel.applier_running {
            let error = channel.error.as_deref().unwrap_or("no error is shown");
            add(
                Level::Error,
                format!("the applier is stopped ({error}); this replica serves no fresh read"),
                Some("START REPLICA SQL_THREAD; after mending the error"),
            );
        }
        if !channel.receiver_running {
            let error = channel.error.as_deref().unwrap_or("no error is shown");
            add(
                Level::Error,
                format!(
                    "the receiver is not connected to {} ({error})",
                    channel.source_address
                ),
                Some("START REPLICA IO_THREAD; after mending the error"),
            );
        }
        if let Some(delay) = channel.delay_s.filter(|delay| *delay > 0) {
            add(
                Level::Warning,
                format!("SOURCE_DELAY is {delay} s: this replica will rarely serve a fresh read"),
                None,
            );
        }
    }
}

fn fleet_finding(view: &FleetView) -> Finding {
    let subject = "fleet".to_owned();
    match &view.source {
        Ok(source) => Finding {
            level: Level::Good,
            subject,
            text: format!("the source is {}", view.server(*source).info.name),
            mend: None,
        },
        Err(error) => Finding {
            level: Level::Error,
            subject,
            text: error.to_string(),
            mend: None,
        },
    }
}
