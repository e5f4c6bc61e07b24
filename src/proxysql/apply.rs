//! Carrying out a plan: mechanical, and verified by reading again.

use std::collections::BTreeSet;

use super::admin::{Admin, AdminError};
use super::plan::{Plan, Scope, plan};
use super::read::{glance, snapshot};
use super::rows::Snapshot;
use super::statement;
use super::want::Want;

/// How an application of a plan ended.
#[derive(Debug)]
pub(crate) enum Applied {
    /// Everything is in force, as the new snapshot shows.
    Verified(Box<Snapshot>),
    /// The instance changed between the look and the LOAD, so nothing was
    /// loaded: look and plan again.
    Overtaken,
    /// After the LOAD something was not as wanted.
    Unverified(Box<Snapshot>, Plan),
}

/// Applies `plan`, which was made from `seen`. Nothing is loaded when `may_load`
/// says no: it is asked right before.
pub(crate) async fn apply(
    admin: &mut Admin,
    seen: &Snapshot,
    wants: &[Want],
    scope: &Scope,
    todo: &Plan,
    may_load: impl Fn() -> bool,
) -> Result<Applied, AdminError> {
    for change in &todo.changes {
        admin.run(&change.statement).await?;
    }
    // A monitor may have placed a server since: loading what was planned before
    // that would undo it. Less than a millisecond is left for the same.
    if glance(admin).await? != seen.glance() || !may_load() {
        return Ok(Applied::Overtaken);
    }
    admin.run(statement::LOAD).await?;
    let after = Box::new(snapshot(admin).await?);
    let left = plan(&after, wants, scope);
    Ok(if left.is_empty() {
        Applied::Verified(after)
    } else {
        Applied::Unverified(after, left)
    })
}

/// Keeps the rows of the `managed` hostgroups over a restart of ProxySQL, but for
/// those that a monitor owns; no other row on its disk is touched.
pub(crate) async fn save(
    admin: &mut Admin,
    managed: &BTreeSet<u32>,
    after: &Snapshot,
) -> Result<(), AdminError> {
    let own = managed.iter().copied();
    let own = own.filter(|hostgroup| !after.is_placed(*hostgroup));
    admin.run(&statement::save(own)).await
}
