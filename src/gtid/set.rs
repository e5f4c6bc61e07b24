//! [`GtidSet`]: transaction numbers of any number of `Sid`s.
//!
//! What it is: a vector of (`Sid`, [`IntervalSet`]) sorted by `Sid`, without
//! empty entries, so that equal sets are equal memory. A fleet has a handful
//! of `Sid`s; a sorted vector is smaller and faster than any map for those,
//! and stays logarithmic if there are many.
//!
//! Why: this is what servers report, what reads require and what tokens carry.
//!
//! What it must not know: where a set came from, what it is compared for.

use super::error::ParseError;
use super::intervals::IntervalSet;
use super::parse::{self, Limits};
use super::sid::{Gtid, Sid};
use super::spans::Span;

/// A set of transactions.
///
/// `Display` gives the normal form on one line (`uuid:1-5:7:tag:1-3,uuid2:9`),
/// `{:#}` exactly what the server prints, i.e. `,\n` between UUIDs. `FromStr`
/// and `Deserialize` read MySQL's grammar within [`Limits::SERVER`].
#[derive(Clone, Default, PartialEq, Eq)]
pub struct GtidSet {
    entries: Vec<(Sid, IntervalSet)>,
}

impl GtidSet {
    /// Reads MySQL's GTID set text.
    ///
    /// # Errors
    /// [`ParseError`] where MySQL 9.7 answers error 1772 (malformed GTID set),
    /// for a tag with a byte above 127, and for text over `limits`.
    pub fn parse(text: &str, limits: Limits) -> Result<Self, ParseError> {
        parse::set(text.as_bytes(), limits)
    }

    /// As [`GtidSet::parse`], for bytes off the wire that need not be UTF-8.
    ///
    /// # Errors
    /// As [`GtidSet::parse`]; any byte above 127 is malformed.
    pub fn parse_bytes(text: &[u8], limits: Limits) -> Result<Self, ParseError> {
        parse::set(text, limits)
    }

    /// Whether the transaction is in the set.
    pub fn contains(&self, gtid: &Gtid) -> bool {
        self.intervals(&gtid.sid)
            .is_some_and(|set| set.contains(gtid.gno))
    }

    /// Whether every transaction of `other` is in this set (superset or equal);
    /// the server's `GTID_SUBSET(other, self)`. True for an empty `other`.
    pub fn contains_set(&self, other: &Self) -> bool {
        other.entries.iter().all(|(sid, theirs)| {
            self.intervals(sid)
                .is_some_and(|ours| ours.contains_all(theirs))
        })
    }

    /// Adds one transaction. A number outside 1..=`GNO_MAX` does not exist in
    /// MySQL and is left out; [`Gtid::new`] tells such a number beforehand.
    pub fn insert(&mut self, gtid: Gtid) {
        self.insert_range(gtid.sid, gtid.gno, gtid.gno);
    }

    /// Adds the numbers `start..=end` of `sid`, cut to 1..=`GNO_MAX`. A
    /// reversed range is empty, as it is to the server.
    pub fn insert_range(&mut self, sid: Sid, start: u64, end: u64) {
        match self.position(&sid) {
            Ok(index) => self.entries[index].1.insert_range(start, end),
            Err(index) => {
                let mut set = IntervalSet::default();
                set.insert_range(start, end);
                if !set.is_empty() {
                    self.entries.insert(index, (sid, set));
                }
            }
        }
    }

    /// Adds every transaction of `other`.
    pub fn union_with(&mut self, other: &Self) {
        let known = self.entries.len();
        for (sid, theirs) in &other.entries {
            match self.entries[..known].binary_search_by(|entry| entry.0.cmp(sid)) {
                Ok(index) => self.entries[index].1.union_with(theirs),
                Err(_) => self.entries.push((*sid, theirs.clone())),
            }
        }
        if self.entries.len() > known {
            // Two sorted runs: a stable sort merges them in linear time.
            self.entries.sort_by_key(|entry| entry.0);
        }
    }

    /// The transactions in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.union_with(other);
        out
    }

    /// The transactions of this set that are not in `other`; the server's
    /// `GTID_SUBTRACT(self, other)`.
    #[must_use]
    pub fn subtract(&self, other: &Self) -> Self {
        self.map_entries(|sid, ours| match other.intervals(sid) {
            Some(theirs) => ours.subtract(theirs),
            None => ours.clone(),
        })
    }

    /// The transactions in both sets.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        self.map_entries(|sid, ours| match other.intervals(sid) {
            Some(theirs) => ours.intersect(theirs),
            None => IntervalSet::default(),
        })
    }

    /// How many transactions the set holds. Stops at `u64::MAX`, which takes
    /// more than two full `Sid`s.
    pub fn count(&self) -> u64 {
        self.sids()
            .map(|(_, set)| set.count())
            .fold(0, u64::saturating_add)
    }

    /// The N such that all of 1..=N of `sid` is in the set; 0 if 1 is missing.
    pub fn watermark(&self, sid: &Sid) -> u64 {
        self.intervals(sid).map_or(0, IntervalSet::watermark)
    }

    /// The numbers of one `Sid`; `None` if the set has none of them.
    pub fn intervals(&self, sid: &Sid) -> Option<&IntervalSet> {
        let index = self.position(sid).ok()?;
        Some(&self.entries[index].1)
    }

    /// Every `Sid` in the set with its (never empty) numbers, in the server's
    /// order.
    pub fn sids(&self) -> impl ExactSizeIterator<Item = (&Sid, &IntervalSet)> {
        self.entries.iter().map(|(sid, set)| (sid, set))
    }

    /// Whether the set holds no transaction.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many intervals the set is made of, over all `Sid`s.
    pub fn interval_count(&self) -> usize {
        self.sids().map(|(_, set)| set.len()).sum()
    }

    /// Heap memory behind the set in bytes; memory shared with clones counts
    /// in full.
    pub fn heap_bytes(&self) -> usize {
        let entries = self.entries.capacity() * size_of::<(Sid, IntervalSet)>();
        entries + self.sids().map(|(_, set)| set.heap_bytes()).sum::<usize>()
    }

    fn position(&self, sid: &Sid) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| entry.0.cmp(sid))
    }

    fn map_entries(&self, change: impl Fn(&Sid, &IntervalSet) -> IntervalSet) -> Self {
        let changed = self.sids().map(|(sid, set)| (*sid, change(sid, set)));
        let entries = changed.filter(|(_, set)| !set.is_empty()).collect();
        Self { entries }
    }
}

impl From<Gtid> for GtidSet {
    fn from(gtid: Gtid) -> Self {
        let mut set = Self::default();
        set.insert(gtid);
        set
    }
}

impl FromIterator<Gtid> for GtidSet {
    fn from_iter<I: IntoIterator<Item = Gtid>>(gtids: I) -> Self {
        let mut builder = Builder::default();
        for Gtid { sid, gno } in gtids {
            // As `insert`: a number that cannot exist is left out.
            if let Some(gtid) = Gtid::new(sid, gno) {
                builder.add(gtid.sid, (gtid.gno, gtid.gno));
            }
        }
        builder.finish()
    }
}

/// Collects intervals in any order and sorts once at the end: inserting each
/// in its place would make a hostile text (descending numbers, descending
/// UUIDs) cost quadratic time.
#[derive(Default)]
pub(super) struct Builder {
    /// One entry per run of intervals with the same `Sid`, as they came.
    runs: Vec<(Sid, Vec<Span>)>,
}

impl Builder {
    /// Adds an interval with 1 ≤ start ≤ end ≤ `GNO_MAX`.
    pub(super) fn add(&mut self, sid: Sid, span: Span) {
        match self.runs.last_mut() {
            Some((last, spans)) if *last == sid => spans.push(span),
            _ => self.runs.push((sid, vec![span])),
        }
    }

    pub(super) fn finish(mut self) -> GtidSet {
        self.runs.sort_by_key(|run| run.0);
        self.runs.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                earlier.1.append(&mut later.1);
            }
            same
        });
        let runs = self.runs.into_iter();
        let entries = runs.map(|(sid, spans)| (sid, IntervalSet::from_spans(spans)));
        GtidSet {
            entries: entries.collect(),
        }
    }
}
