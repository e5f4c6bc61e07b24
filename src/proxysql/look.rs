//! One look at an instance, for a person's question: connect, read, leave.

use std::collections::{BTreeMap, BTreeSet};

use super::admin::{Admin, AdminError, AdminLogin, TextRow};
use super::read::snapshot;
use super::survey::{Rule, Survey, User};

/// The variables that matter. No secrets: surveys are printed.
const VARIABLES: [&str; 10] = [
    "mysql-binlog_reader_connect_retry_msec",
    "mysql-default_session_track_gtids",
    "mysql-monitor_enabled",
    "mysql-monitor_replication_lag_interval",
    "mysql-monitor_replication_lag_use_percona_heartbeat",
    "mysql-monitor_username",
    "mysql-monitor_writer_is_also_reader",
    "mysql-multiplexing",
    "mysql-query_digests",
    "mysql-query_processor_first_comment_parsing",
];

/// Tables that name hostgroups and may not exist in every version.
const ELSEWHERE: [(&str, &[&str]); 3] = [
    (
        "runtime_mysql_galera_hostgroups",
        &[
            "writer_hostgroup",
            "backup_writer_hostgroup",
            "reader_hostgroup",
            "offline_hostgroup",
        ],
    ),
    (
        "runtime_mysql_aws_aurora_hostgroups",
        &["writer_hostgroup", "reader_hostgroup"],
    ),
    (
        "runtime_mysql_query_rules_fast_routing",
        &["destination_hostgroup"],
    ),
];

/// Reads everything but secrets.
pub(crate) async fn survey(login: &AdminLogin) -> Result<Survey, AdminError> {
    let mut admin = Admin::connect(login).await?;
    let survey = Survey {
        snapshot: snapshot(&mut admin).await?,
        variables: variables(&mut admin).await?,
        rules: rules(&mut admin).await?,
        rule_ids: rule_ids(&mut admin).await?,
        users: users(&mut admin).await?,
        elsewhere: elsewhere(&mut admin).await?,
    };
    admin.close().await;
    Ok(survey)
}

/// The password of ProxySQL's monitor.
pub(crate) async fn monitor_password(login: &AdminLogin) -> Result<String, AdminError> {
    let mut admin = Admin::connect(login).await?;
    let query = "SELECT variable_value FROM runtime_global_variables \
                 WHERE variable_name='mysql-monitor_password'";
    let rows = admin.rows(query).await?;
    admin.close().await;
    let row = rows
        .first()
        .ok_or_else(|| AdminError::NotProxySql("no mysql-monitor_password".into()))?;
    Ok(row.text(0)?.to_owned())
}

async fn variables(admin: &mut Admin) -> Result<BTreeMap<String, String>, AdminError> {
    let query = format!(
        "SELECT variable_name, variable_value FROM runtime_global_variables \
         WHERE variable_name IN ('{}')",
        VARIABLES.join("','")
    );
    let rows = admin.rows(&query).await?;
    let pair = |row: &TextRow| Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned()));
    rows.iter().map(pair).collect()
}

async fn rules(admin: &mut Admin) -> Result<Vec<Rule>, AdminError> {
    let query = "SELECT rule_id, match_digest, match_pattern, replace_pattern, \
                 destination_hostgroup, mirror_hostgroup, cache_ttl, multiplex, \
                 gtid_from_hostgroup FROM runtime_mysql_query_rules WHERE active=1 \
                 ORDER BY rule_id";
    let rows = admin.rows(query).await?;
    rows.iter().map(rule).collect()
}

fn rule(row: &TextRow) -> Result<Rule, AdminError> {
    Ok(Rule {
        id: row.number(0)?,
        digest: text_if_any(row, 1),
        pattern: text_if_any(row, 2),
        rewrites: text_if_any(row, 3).is_some(),
        destination: number_if_any(row, 4)?,
        mirror: number_if_any(row, 5)?,
        cache_ttl_ms: number_if_any(row, 6)?,
        multiplex: number_if_any(row, 7)?,
        gtid_from: number_if_any(row, 8)?,
    })
}

async fn rule_ids(admin: &mut Admin) -> Result<BTreeSet<u64>, AdminError> {
    let rows = admin.rows("SELECT rule_id FROM mysql_query_rules").await?;
    rows.iter().map(|row| row.number(0)).collect()
}

async fn users(admin: &mut Admin) -> Result<Vec<User>, AdminError> {
    let query = "SELECT DISTINCT username, default_hostgroup, transaction_persistent, \
                 fast_forward FROM runtime_mysql_users WHERE active=1 AND frontend=1 \
                 ORDER BY username";
    let rows = admin.rows(query).await?;
    let user = |row: &TextRow| {
        Ok(User {
            name: row.text(0)?.to_owned(),
            default_hostgroup: row.number(1)?,
            transaction_persistent: row.number::<u8>(2)? != 0,
            fast_forward: row.number::<u8>(3)? != 0,
        })
    };
    rows.iter().map(user).collect()
}

async fn elsewhere(admin: &mut Admin) -> Result<BTreeSet<u32>, AdminError> {
    let mut hostgroups = BTreeSet::new();
    for (table, columns) in ELSEWHERE {
        let query = format!("SELECT {} FROM {table}", columns.join(", "));
        let rows = match admin.rows(&query).await {
            // A version without the table has nothing in it.
            Err(AdminError::Refused { .. }) => continue,
            rows => rows?,
        };
        for row in &rows {
            for column in 0..columns.len() {
                hostgroups.extend(number_if_any::<u32>(row, column)?);
            }
        }
    }
    Ok(hostgroups)
}

fn text_if_any(row: &TextRow, at: usize) -> Option<String> {
    let text = row.0.get(at)?.clone();
    text.filter(|text| !text.is_empty())
}

fn number_if_any<T: std::str::FromStr>(row: &TextRow, at: usize) -> Result<Option<T>, AdminError> {
    match row.0.get(at) {
        Some(Some(text)) if !text.is_empty() => row.number(at).map(Some),
        _ => Ok(None),
    }
}
