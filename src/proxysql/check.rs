//! What stands between an instance of ProxySQL and what Causeway promises
//! through it: findings from what was read, each with what mends it.
//!
//! Every condition and every effect named here was measured on 2.7.1, or is said
//! by its documentation. Pure: no connection, no clock.

mod gating;
mod hostgroups;
mod servers;
mod traffic;

use std::collections::BTreeMap;

use super::admin::AdminError;
use super::controller::Settings;
use super::survey::Survey;
use crate::check::{Finding, Level};
use crate::fleet::{ServerSpec, Version};

const RULES: &str = "LOAD MYSQL QUERY RULES TO RUNTIME; SAVE MYSQL QUERY RULES TO DISK;";
const USERS: &str = "LOAD MYSQL USERS TO RUNTIME; SAVE MYSQL USERS TO DISK;";
const VARIABLES: &str = "LOAD MYSQL VARIABLES TO RUNTIME; SAVE MYSQL VARIABLES TO DISK;";
const SERVERS: &str = "LOAD MYSQL SERVERS TO RUNTIME; SAVE MYSQL SERVERS TO DISK;";

/// The configuration's side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    /// The instance's name.
    pub(crate) instance: &'a str,
    /// `[proxysql]`.
    pub(crate) settings: &'a Settings,
    /// `mysql.servers`.
    pub(crate) servers: &'a [ServerSpec],
    /// `session_track_gtids` of the servers that answered, by name.
    pub(crate) tracking: &'a BTreeMap<String, String>,
    /// The newest version among the servers that answered.
    pub(crate) newest: Option<Version>,
}

/// Everything there is to say of an instance that was read.
pub(crate) fn findings(survey: &Survey, context: &Context<'_>) -> Vec<Finding> {
    let mut notes = Notes {
        subject: context.instance,
        findings: Vec::new(),
    };
    notes.add(Level::Good, summary(survey), None);
    hostgroups::look(survey, context, &mut notes);
    servers::look(survey, context, &mut notes);
    traffic::look(survey, context, &mut notes);
    gating::look(survey, context, &mut notes);
    notes.findings
}

fn summary(survey: &Survey) -> String {
    let snapshot = &survey.snapshot;
    let pairs = snapshot.placements.iter();
    let pairs: Vec<String> = pairs
        .map(|pair| format!("{}/{}", pair.writer, pair.reader))
        .collect();
    let pairs = match &pairs[..] {
        [] => "no pairs of writer and reader hostgroups".to_owned(),
        pairs => format!("writer/reader hostgroups {}", pairs.join(", ")),
    };
    format!(
        "ProxySQL {}, the login is right, {pairs}, {} rows of servers",
        snapshot.version,
        survey.rows().count()
    )
}

/// What to say of an instance that could not be read.
pub(crate) fn unusable(instance: &str, error: &AdminError) -> Finding {
    let mend = match error {
        AdminError::Unreachable(_) | AdminError::Timeout => {
            "check proxysql.instances.address (the admin's port, 6032 by default), the network, \
             and that ProxySQL runs"
        }
        AdminError::AccessDenied(text) if text.contains("local") => {
            "the user admin may connect from ProxySQL's own host only; make another: SET \
             admin-admin_credentials='admin:...;causeway:...'; LOAD ADMIN VARIABLES TO RUNTIME; \
             SAVE ADMIN VARIABLES TO DISK;"
        }
        AdminError::AccessDenied(_) => {
            "check proxysql.user and its password against admin-admin_credentials, and that the \
             address is the admin's (port 6032 by default), not that of the traffic"
        }
        AdminError::NotProxySql(_) => {
            "put the address of ProxySQL's admin interface (port 6032 by default), not that of \
             its traffic or of a MySQL server"
        }
        AdminError::TooOld(_) => "upgrade ProxySQL",
        AdminError::Refused { .. } | AdminError::Unreadable(_) => {
            "this version's tables differ from those known: please report it"
        }
    };
    Finding {
        level: Level::Error,
        subject: instance.to_owned(),
        text: error.to_string(),
        mend: Some(mend.to_owned()),
    }
}

/// The findings so far.
struct Notes<'a> {
    subject: &'a str,
    findings: Vec<Finding>,
}

impl Notes<'_> {
    fn add(&mut self, level: Level, text: String, mend: Option<String>) {
        self.findings.push(Finding {
            level,
            subject: self.subject.to_owned(),
            text,
            mend,
        });
    }

    fn warn(&mut self, text: impl Into<String>, mend: impl Into<String>) {
        self.add(Level::Warning, text.into(), Some(mend.into()));
    }

    fn error(&mut self, text: impl Into<String>, mend: impl Into<String>) {
        self.add(Level::Error, text.into(), Some(mend.into()));
    }
}

/// `1, 2, 3`.
fn list<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    items.join(", ")
}

#[cfg(test)]
#[path = "tests/check.rs"]
mod tests;
