//! Which hostgroup a read can be sent to by a comment, per server: published by
//! the controller once it saw the hostgroup in force, read on the hot path.

use std::collections::BTreeSet;

use arc_swap::ArcSwap;

use super::rows::{Address, Key, Rows, Status};
use super::want::{HintSpec, WEIGHT_OWN};
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

/// The servers whose hint hostgroup can be used: the server is in it as its own,
/// somebody takes work, and nobody in it is a stranger. Somebody else's hostgroup
/// that has the number by chance is not one.
pub(super) fn in_force(
    hints: HintSpec,
    addresses: &[Address],
    runtime: &Rows,
) -> BTreeSet<ServerIx> {
    let usable = |(ix, own): &(ServerIx, &Address)| {
        let hostgroup = hints.hostgroup(*ix);
        let key = Key {
            hostgroup,
            address: (*own).clone(),
        };
        let is_own = runtime
            .get(&key)
            .is_some_and(|row| row.weight == WEIGHT_OWN);
        let online: Vec<&Key> = runtime
            .iter()
            .filter(|(key, row)| key.hostgroup == hostgroup && row.status == Status::Online)
            .map(|(key, _)| key)
            .collect();
        let known = |key: &&Key| addresses.contains(&key.address);
        is_own && !online.is_empty() && online.iter().all(known)
    };
    let numbered = addresses.iter().enumerate().map(|(n, address)| {
        let ix = u16::try_from(n).expect("a fleet has at most 65,536 servers");
        (ServerIx(ix), address)
    });
    numbered.filter(usable).map(|(ix, _)| ix).collect()
}

/// The comment that sends a query to `hostgroup`. It must be the query's first
/// comment, and not an optimizer hint (`/*+ … */`), which ProxySQL reads
/// otherwise.
pub fn comment(hostgroup: u32) -> String {
    format!("/* hostgroup={hostgroup} */")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxysql::rows::Row;

    const HINTS: HintSpec = HintSpec { base: 9000 };

    fn address(port: u16) -> Address {
        Address {
            host: "db".to_owned(),
            port,
        }
    }

    fn rows(rows: &[(u32, u16, Status, u32)]) -> Rows {
        let row = |(hostgroup, port, status, weight): &(u32, u16, Status, u32)| {
            let key = Key {
                hostgroup: *hostgroup,
                address: address(*port),
            };
            let row = Row {
                status: *status,
                weight: *weight,
                ..Row::default()
            };
            (key, row)
        };
        rows.iter().map(row).collect()
    }

    fn usable(runtime: &Rows) -> Vec<u16> {
        let servers = in_force(HINTS, &[address(1), address(2)], runtime);
        servers.into_iter().map(|ix| ix.0).collect()
    }

    #[test]
    fn a_hint_is_published_only_while_its_hostgroup_is_in_force() {
        use Status::{OfflineSoft, Online};
        let own = WEIGHT_OWN;
        let both = rows(&[
            (9001, 1, Online, own),
            (9002, 2, Online, own),
            (9002, 1, Online, 1),
        ]);
        assert_eq!(usable(&both), [0, 1]);
        // The source stands in for a server that is out.
        let out = rows(&[(9002, 2, OfflineSoft, own), (9002, 1, Online, 1)]);
        assert_eq!(usable(&out), [1]);
        // Nobody takes work: ProxySQL would answer with an error after ten seconds.
        assert_eq!(usable(&rows(&[(9002, 2, OfflineSoft, own)])), [0_u16; 0]);
        // A hostgroup that somebody else made.
        assert_eq!(usable(&rows(&[(9002, 2, Online, 1)])), [0_u16; 0]);
        assert_eq!(
            usable(&rows(&[(9002, 2, Online, own), (9002, 7, Online, 1)])),
            [0_u16; 0]
        );
    }
}
