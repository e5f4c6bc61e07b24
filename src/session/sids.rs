//! Short numbers for the few UUID and tag pairs that sessions write under.

use std::sync::OnceLock;

use crate::gtid::Sid;

/// Most pairs numbered; sessions under further ones are kept in the long form.
const SIDS_MAX: usize = 1024;

/// A grow-only table of pairs. A number is the place of the pair; places are
/// taken in order and never change, so that reading one is a plain load.
#[derive(Debug)]
pub(super) struct Sids {
    table: Box<[OnceLock<Sid>]>,
}

impl Default for Sids {
    fn default() -> Self {
        Self {
            table: (0..SIDS_MAX).map(|_| OnceLock::new()).collect(),
        }
    }
}

impl Sids {
    /// The pair with this number.
    pub(super) fn get(&self, number: u16) -> Sid {
        *self.table[usize::from(number)]
            .get()
            .expect("a number is given out with its pair in place")
    }

    /// The pair's number, given now if it has none; `None` when the table is
    /// full.
    pub(super) fn number(&self, sid: &Sid) -> Option<u16> {
        // Whoever loses the race for a free place sees who won it.
        let at = self
            .table
            .iter()
            .position(|place| place.get_or_init(|| *sid) == sid)?;
        u16::try_from(at).ok()
    }
}
