//! What a server must have executed before it may serve a read.
//!
//! Most requirements are one GTID or "everything up to N"; keeping those two
//! forms apart from the general set makes a session cost a few dozen bytes and a
//! check a few nanoseconds. Pure: no clock, no I/O.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::gtid::{Gtid, GtidSet, Sid};

/// A GTID set that a server must have executed, in its cheapest exact form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Requirement {
    /// Nothing: every server meets it.
    #[default]
    Nothing,
    /// Exactly one transaction.
    One(Gtid),
    /// All of `1..=gno` of `sid`.
    UpTo {
        /// The UUID and tag.
        sid: Sid,
        /// The last transaction number required.
        gno: u64,
    },
    /// Any other set.
    Set(Arc<GtidSet>),
}

impl Requirement {
    /// The requirement that `set` be executed.
    pub fn of(set: GtidSet) -> Self {
        match simple_form(&set) {
            Some(simple) => simple,
            None => Self::Set(Arc::new(set)),
        }
    }

    /// What of `set` is left to ask for above a `floor` that is asked for
    /// anyway, in a form that costs little: `1..=N` stays "up to N".
    pub fn above(set: &GtidSet, floor: &GtidSet) -> Self {
        let rest = set.subtract(floor);
        let sids: SmallVec<[Sid; 2]> = rest.sids().map(|(sid, _)| *sid).take(2).collect();
        match sids[..] {
            [sid]
                if set
                    .intervals(&sid)
                    .is_some_and(|own| own.len() == 1 && own.watermark() > 0) =>
            {
                Self::UpTo {
                    sid,
                    gno: set.watermark(&sid),
                }
            }
            _ => Self::of(rest),
        }
    }

    /// True when a server that executed `set` may serve the read.
    pub fn met_by(&self, set: &GtidSet) -> bool {
        match self {
            Self::Nothing => true,
            Self::One(gtid) => set.contains(gtid),
            Self::UpTo { sid, gno } => set.watermark(sid) >= *gno,
            Self::Set(need) => set.contains_set(need),
        }
    }

    /// The same requirement as a GTID set.
    pub fn to_set(&self) -> GtidSet {
        match self {
            Self::Nothing => GtidSet::default(),
            Self::One(gtid) => GtidSet::from(*gtid),
            Self::UpTo { sid, gno } => {
                let mut set = GtidSet::default();
                set.insert_range(*sid, 1, *gno);
                set
            }
            Self::Set(set) => GtidSet::clone(set),
        }
    }

    /// True for [`Requirement::Nothing`].
    pub fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// Both requirements at once.
    pub fn and(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Nothing, need) | (need, Self::Nothing) => need.clone(),
            (one, two) if one == two => one.clone(),
            (one, two) => Self::of(one.to_set().union(&two.to_set())),
        }
    }
}

fn simple_form(set: &GtidSet) -> Option<Requirement> {
    if set.is_empty() {
        return Some(Requirement::Nothing);
    }
    if set.interval_count() != 1 {
        return None;
    }
    let (sid, intervals) = set.sids().next()?;
    let (start, end) = intervals.iter().next()?;
    match (start, end) {
        (start, end) if start == end => Some(Requirement::One(Gtid {
            sid: *sid,
            gno: end,
        })),
        (1, gno) => Some(Requirement::UpTo { sid: *sid, gno }),
        _ => None,
    }
}
