//! The part of a check that asks every ProxySQL.

use std::collections::BTreeMap;

use super::Finding;
use crate::fleet::{ServerSpec, Version};
use crate::proxysql::check::{Context, findings as of, unusable};
use crate::proxysql::look::survey;
use crate::proxysql::{AdminError, Settings};

/// Looks at every ProxySQL at once.
pub(super) async fn look(
    settings: &Settings,
    servers: &[ServerSpec],
    tracking: &BTreeMap<String, String>,
    newest: Option<Version>,
) -> Vec<Finding> {
    let looks = settings.instances.iter().cloned();
    let looks = looks.map(|login| tokio::spawn(async move { survey(&login).await }));
    let mut findings = Vec::new();
    for (login, look) in settings.instances.iter().zip(looks.collect::<Vec<_>>()) {
        let context = Context {
            instance: &login.name,
            settings,
            servers,
            tracking,
            newest,
        };
        let panicked =
            |panic: tokio::task::JoinError| Err(AdminError::Unreadable(panic.to_string()));
        match look.await.unwrap_or_else(panicked) {
            Ok(survey) => findings.extend(of(&survey, &context)),
            Err(error) => findings.push(unusable(&login.name, &error)),
        }
    }
    findings
}
