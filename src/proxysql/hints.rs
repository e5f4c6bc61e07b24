//! Which hostgroup a read can be sent to by a comment, per server: published by
//! the controller once it saw the hostgroup in force, read on the hot path.

use arc_swap::ArcSwap;

use crate::fleet::ServerIx;

/// The published hostgroups.
#[derive(Debug, Default)]
pub struct Hints {
    by_server: ArcSwap<Vec<Option<u32>>>,
}

impl Hints {
    /// The hostgroup that holds `server`, when every ProxySQL looked at has it.
    pub fn hostgroup(&self, server: ServerIx) -> Option<u32> {
        self.by_server.load().get(server.index()).copied().flatten()
    }

    pub(super) fn publish(&self, by_server: Vec<Option<u32>>) {
        if **self.by_server.load() != by_server {
            self.by_server.store(by_server.into());
        }
    }
}

/// The comment that sends a query to `hostgroup`. It must be the query's first
/// comment, and not an optimizer hint (`/*+ … */`), which ProxySQL reads
/// otherwise.
pub fn comment(hostgroup: u32) -> String {
    format!("/* hostgroup={hostgroup} */")
}
