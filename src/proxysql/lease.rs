//! One writer at a time: an advisory lock on the source.
//!
//! `GET_LOCK` belongs to a connection, and the server frees it when that
//! connection ends. The holder says every half second that it is still there and
//! counts on the lock for two seconds from the moment it asked; a holder that is
//! cut off is disconnected by the server after five (`wait_timeout`). So there
//! is a gap between two holders, never an overlap, as long as the source lives;
//! when the source changes, the lock is taken anew on the new one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::fleet::{Fault, FleetView, ServerIx};
use crate::moment::Moment;
use crate::observe::connect::{connect, fault, within};
use crate::observe::{Hub, Login};

const CONNECT_DEADLINE: Duration = Duration::from_secs(2);
const RENEW_INTERVAL: Duration = Duration::from_millis(500);
const RENEW_DEADLINE: Duration = Duration::from_secs(1);
/// How long the lock counts as held after it was last seen to be.
const VALID: Duration = Duration::from_secs(2);
/// The server ends a silent holder's connection after this.
const SERVER_TIMEOUT_S: u32 = 5;
/// One attempt to get the lock waits on the server for this long.
const ATTEMPT_S: u32 = 1;
const ATTEMPT_DEADLINE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_secs(1);

/// Longest name of a lock in MySQL, in characters.
pub(crate) const NAME_MAX: usize = 64;
/// Stands for the name of this host in a lease's name.
pub(crate) const HOST: &str = "{host}";

/// The lock's name: `template` with this host's name in place of [`HOST`].
pub(crate) fn name(template: &str) -> String {
    let host = gethostname::gethostname();
    let name = template.replace(HOST, &host.to_string_lossy());
    name.chars().take(NAME_MAX).collect()
}

/// The lease as seen by who wants to write.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    valid_until_us: AtomicU64,
    pub(crate) changed: Notify,
}

impl Lease {
    /// True when this process is the one writer now.
    pub(crate) fn is_held(&self, now: Moment) -> bool {
        self.valid_until_us.load(Ordering::Acquire) > now.micros()
    }

    fn held_until(&self, until: Moment) {
        let before = self.valid_until_us.swap(until.micros(), Ordering::AcqRel);
        if before < clock::now().micros() {
            tracing::info!("holds the lease: this Causeway writes to ProxySQL");
            self.changed.notify_waiters();
        }
    }

    fn lost(&self) {
        if self.valid_until_us.swap(0, Ordering::AcqRel) > 0 {
            tracing::warn!("lost the lease: this Causeway does not write to ProxySQL");
            self.changed.notify_waiters();
        }
    }
}

/// Gets the lock and keeps it, until `stop`.
pub(crate) async fn keep(
    lease: Arc<Lease>,
    hub: Arc<Hub>,
    login: Arc<Login>,
    name: String,
    stop: CancellationToken,
) {
    let mut logged = None;
    loop {
        let ended = tokio::select! {
            ended = hold_once(&lease, &hub, &login, &name) => ended,
            () = stop.cancelled() => return lease.lost(),
        };
        lease.lost();
        // Said once, not at every attempt.
        if let Err(fault) = ended
            && logged.as_ref() != Some(&fault)
        {
            tracing::warn!(name, %fault, "the lease's connection to the source failed");
            logged = Some(fault);
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Returns when the lock was lost, or could not be asked for.
async fn hold_once(lease: &Lease, hub: &Hub, login: &Login, name: &str) -> Result<(), Fault> {
    let Some((source, address)) = source(&hub.view()) else {
        return Ok(());
    };
    let held = async {
        let (mut conn, _) = connect(&address, login, CONNECT_DEADLINE).await?;
        get(&mut conn, hub, source, name).await?;
        loop {
            let asked = clock::now();
            if source_of(hub) != Some(source) || !renew(&mut conn, name).await? {
                return Ok(());
            }
            lease.held_until(asked.plus(VALID));
            tokio::time::sleep(RENEW_INTERVAL).await;
        }
    };
    held.await
}

async fn get(conn: &mut Conn, hub: &Hub, source: ServerIx, name: &str) -> Result<(), Fault> {
    let shorten = format!("SET SESSION wait_timeout={SERVER_TIMEOUT_S}");
    within(RENEW_DEADLINE, async {
        conn.query_drop(shorten)
            .await
            .map_err(|error| fault(&error))
    })
    .await?;
    while source_of(hub) == Some(source) {
        let got: Option<Option<u8>> = within(ATTEMPT_DEADLINE, async {
            conn.exec_first("SELECT GET_LOCK(?, ?)", (name, ATTEMPT_S))
                .await
                .map_err(|error| fault(&error))
        })
        .await?;
        if got.flatten() == Some(1) {
            return Ok(());
        }
    }
    Err(Fault::Unreachable("the source changed".to_owned()))
}

async fn renew(conn: &mut Conn, name: &str) -> Result<bool, Fault> {
    let mine: Option<Option<u8>> = within(RENEW_DEADLINE, async {
        conn.exec_first("SELECT IS_USED_LOCK(?) = CONNECTION_ID()", (name,))
            .await
            .map_err(|error| fault(&error))
    })
    .await?;
    Ok(mine.flatten() == Some(1))
}

fn source(view: &FleetView) -> Option<(ServerIx, String)> {
    let source = view.source()?;
    Some((source.ix, source.info.address.clone()))
}

fn source_of(hub: &Hub) -> Option<ServerIx> {
    hub.view().source().map(|source| source.ix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_part_of_the_name_where_the_template_says_so() {
        assert_eq!(name("causeway.proxysql"), "causeway.proxysql");
        let here = gethostname::gethostname();
        assert!(name("x@{host}").ends_with(&*here.to_string_lossy()));
        assert_eq!(name(&"y".repeat(100)).len(), NAME_MAX);
    }
}
