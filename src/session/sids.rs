//! Short numbers for the few UUID and tag pairs that sessions write under.

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::gtid::Sid;

/// Most pairs numbered; sessions under further ones are kept in the long form.
const SIDS_MAX: usize = 1024;

/// A grow-only table of pairs; reading it takes no lock.
#[derive(Debug, Default)]
pub(super) struct Sids {
    table: ArcSwap<Vec<Sid>>,
    growing: Mutex<()>,
}

impl Sids {
    /// The pair with this number.
    pub(super) fn get(&self, number: u16) -> Sid {
        self.table.load()[usize::from(number)]
    }

    /// The pair's number, given now if it has none; `None` when the table is
    /// full.
    pub(super) fn number(&self, sid: &Sid) -> Option<u16> {
        let find = |table: &[Sid]| {
            table
                .iter()
                .position(|known| known == sid)
                .and_then(|at| u16::try_from(at).ok())
        };
        if let Some(number) = find(&self.table.load()) {
            return Some(number);
        }
        let _growing = self.growing.lock();
        let mut table = Vec::clone(&self.table.load());
        if let Some(number) = find(&table) {
            return Some(number);
        }
        if table.len() == SIDS_MAX {
            return None;
        }
        table.push(*sid);
        let number = find(&table);
        self.table.store(table.into());
        number
    }
}
