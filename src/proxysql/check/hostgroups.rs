//! Are the managed hostgroups Causeway's to manage?

use super::{Context, Notes};
use crate::fleet::ServerIx;
use crate::proxysql::plan::prepared;
use crate::proxysql::rows::{Placement, Snapshot};
use crate::proxysql::survey::Survey;
use crate::proxysql::want::HintSpec;

/// Staged changes that are named before the rest is only counted.
const STAGED_SHOWN: usize = 3;

pub(super) fn look(survey: &Survey, context: &Context<'_>, notes: &mut Notes<'_>) {
    hints(survey, context, notes);
    for tier in &context.settings.managed.tiers {
        tier_hostgroup(&survey.snapshot, tier.hostgroup, notes);
    }
    staged(survey, context, notes);
}

fn hints(survey: &Survey, context: &Context<'_>, notes: &mut Notes<'_>) {
    let Some(hints) = context.settings.managed.hints else {
        return;
    };
    for (server, hostgroup) in context.servers.iter().zip(hostgroups(hints)) {
        if let Some(user) = survey.user_of(hostgroup) {
            notes.error(
                format!(
                    "hostgroup {hostgroup}, meant for hints to {}, is in use by {user}",
                    server.name
                ),
                "put another proxysql.hints.base, above every hostgroup in use; causeway init \
                 --from-proxysql finds one",
            );
        }
    }
}

fn hostgroups(hints: HintSpec) -> impl Iterator<Item = u32> {
    (0..=u16::MAX).map(move |ix| hints.hostgroup(ServerIx(ix)))
}

fn tier_hostgroup(snapshot: &Snapshot, hostgroup: u32, notes: &mut Notes<'_>) {
    let placed = |pair: &&Placement| pair.holds(hostgroup);
    let Some(pair) = snapshot.placements.iter().find(placed) else {
        return;
    };
    if pair.reader != hostgroup {
        notes.error(
            format!(
                "the tier's hostgroup {hostgroup} is where ProxySQL's monitor puts writers (or \
                 spare and failed ones): as a tier it would lose the source, and writes would fail"
            ),
            format!(
                "put the reader hostgroup {} in proxysql.tier.hostgroup, or one not in use",
                pair.reader
            ),
        );
    } else if !snapshot.cluster.is_empty() {
        notes.warn(
            format!(
                "the tier's hostgroup {hostgroup} is a reader hostgroup of the monitor, where \
                 replicas are taken out by SHUNNED, and a ProxySQL Cluster spreads SHUNNED as \
                 ONLINE: the other nodes go on offering stale replicas"
            ),
            "use a hostgroup of its own in proxysql.tier.hostgroup, and point the rules to it",
        );
    }
}

/// While somebody has changes prepared and not loaded, Causeway loads nothing.
fn staged(survey: &Survey, context: &Context<'_>, notes: &mut Notes<'_>) {
    let managed = context.settings.managed.hostgroups(context.servers.len());
    let staged = prepared(&survey.snapshot, &managed);
    if staged.is_empty() {
        return;
    }
    let shown = staged[..staged.len().min(STAGED_SHOWN)].join("; ");
    let more = staged.len().saturating_sub(STAGED_SHOWN);
    let more = match more {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    notes.warn(
        format!(
            "changes are prepared in mysql_servers and not loaded ({shown}{more}): until they are \
             loaded or withdrawn, Causeway loads nothing"
        ),
        "to bring them into force: LOAD MYSQL SERVERS TO RUNTIME; to withdraw them: SAVE MYSQL \
         SERVERS TO MEMORY;",
    );
}
