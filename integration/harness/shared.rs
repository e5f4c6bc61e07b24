//! One topology for all tests of a process, lent to one test at a time.
//!
//! Starting servers takes seconds, so the tests share a source and two
//! replicas. Each test gets them healed, whatever the test before did to them;
//! when they cannot be healed, it gets new ones.

use std::ops::Deref;

use tokio::sync::{Mutex, MutexGuard};

use super::topology::{Topology, TopologySpec};

static SHARED: Mutex<Option<Topology>> = Mutex::const_new(None);

/// The right to use the shared topology, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lease(MutexGuard<'static, Option<Topology>>);

impl Deref for Lease {
    type Target = Topology;

    fn deref(&self) -> &Topology {
        self.0.as_ref().expect("a lease is made with a topology")
    }
}

/// Waits for the other tests, and lends a healthy source with two replicas.
///
/// Panics when no topology can be had, because then no test has a meaning.
pub(crate) async fn shared() -> Lease {
    let mut topology = SHARED.lock().await;
    if let Some(used) = &*topology
        && let Err(error) = used.clear().await
    {
        eprintln!("starting a new topology: {error:#}");
        *topology = None;
    }
    if topology.is_none() {
        let fresh = Topology::start(TopologySpec::new(2)).await;
        *topology = Some(fresh.expect("a source and two replicas start"));
    }
    Lease(topology)
}
