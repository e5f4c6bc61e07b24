//! The routed reads that wait for one server.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::fleet::{FleetView, ServerIx};
use crate::requirement::Requirement;

#[derive(Debug)]
struct Waiter {
    id: u64,
    need: Requirement,
    /// A barrier is under way for it.
    taken: bool,
    done: Arc<Notify>,
}

/// Who waits for a server, in the order of arrival.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    list: Mutex<List>,
    /// Wakes a barrier connection.
    arrived: Notify,
}

#[derive(Debug, Default)]
struct List {
    next_id: u64,
    waiters: Vec<Waiter>,
}

impl Waiters {
    /// Adds a waiter, who is told through `done`.
    pub(super) fn add(&self, need: Requirement, done: Arc<Notify>) -> u64 {
        let mut list = self.list.lock();
        list.next_id += 1;
        let id = list.next_id;
        list.waiters.push(Waiter {
            id,
            need,
            taken: false,
            done,
        });
        drop(list);
        self.arrived.notify_one();
        id
    }

    pub(super) fn remove(&self, id: u64) {
        self.list.lock().waiters.retain(|waiter| waiter.id != id);
    }

    pub(super) fn len(&self) -> usize {
        self.list.lock().waiters.len()
    }

    /// Tells everyone whose requirement `server` meets now.
    pub(super) fn release(&self, view: &FleetView, server: ServerIx) {
        let server = view.server(server);
        self.list.lock().waiters.retain(|waiter| {
            let met = view.meets(server, &waiter.need);
            if met {
                waiter.done.notify_one();
            }
            !met
        });
    }

    /// The oldest waiter that no barrier is under way for; waits for one.
    pub(super) async fn next(&self) -> (u64, Requirement) {
        loop {
            if let Some(taken) = self.take() {
                return taken;
            }
            self.arrived.notified().await;
        }
    }

    /// Lets the waiter be taken again, if it still waits, after the others have
    /// had their turn: one whose transaction takes long must not keep the
    /// barriers from those whose transactions commit out of order meanwhile.
    pub(super) fn put_back(&self, id: u64) {
        let mut list = self.list.lock();
        let Some(at) = list.waiters.iter().position(|waiter| waiter.id == id) else {
            return;
        };
        let waiter = list.waiters.remove(at);
        list.waiters.push(Waiter {
            taken: false,
            ..waiter
        });
        drop(list);
        self.arrived.notify_one();
    }

    fn take(&self) -> Option<(u64, Requirement)> {
        let mut list = self.list.lock();
        let waiter = list.waiters.iter_mut().find(|waiter| !waiter.taken)?;
        waiter.taken = true;
        let taken = (waiter.id, waiter.need.clone());
        let more = list.waiters.iter().any(|waiter| !waiter.taken);
        drop(list);
        if more {
            // One wake-up may have stood for several arrivals.
            self.arrived.notify_one();
        }
        Some(taken)
    }
}
