//! [`IntervalSet`]: the transaction numbers of one `Sid`.
//!
//! What it is: sorted, disjoint, non-adjacent inclusive intervals. One interval,
//! by far the usual case, sits inline; more are shared behind an `Arc` and
//! copied on the first write after a clone, because a server's set is
//! published to readers far oftener than it changes shape.
//!
//! Why: membership must stay logarithmic with 100,000 gaps, and a clone must
//! not cost what the set costs.
//!
//! What it must not know: whose numbers these are, and how they are printed.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::sid::GNO_MAX;
use super::spans::{self, Span};

/// Sets at least this short are added one interval at a time: moving the tail
/// of the longer list beats building a new one.
const INSERT_EACH_MAX: usize = 8;

/// A set of transaction numbers, each within 1..=[`GNO_MAX`].
///
/// Numbers outside that range do not exist in MySQL; every method leaves them
/// out, so no input can make one panic. Cloning is O(1).
#[derive(Clone, Default)]
pub struct IntervalSet {
    repr: Repr,
}

#[derive(Clone, Default)]
enum Repr {
    #[default]
    Empty,
    One(Span),
    /// At least two intervals.
    Many(Arc<Vec<Span>>),
}

impl IntervalSet {
    /// From inclusive intervals in any order, overlapping or not, each within
    /// 1..=[`GNO_MAX`] and start ≤ end.
    pub(super) fn from_spans(spans: Vec<Span>) -> Self {
        let mut spans = spans::normalise(spans);
        spans.shrink_to_fit();
        Self::from_normal(spans)
    }

    fn from_normal(spans: Vec<Span>) -> Self {
        let repr = match spans.as_slice() {
            [] => Repr::Empty,
            [span] => Repr::One(*span),
            _ => Repr::Many(Arc::new(spans)),
        };
        Self { repr }
    }

    /// Whether the number is in the set. O(log intervals).
    pub fn contains(&self, gno: u64) -> bool {
        match &self.repr {
            Repr::Empty => false,
            Repr::One((start, end)) => *start <= gno && gno <= *end,
            Repr::Many(spans) => spans::contains(spans, gno),
        }
    }

    /// Whether every number of `other` is in this set; true for an empty
    /// `other`. O(other's intervals · log of this one's).
    pub fn contains_all(&self, other: &Self) -> bool {
        self.is_same_memory(other) || spans::covers(self.spans(), other.spans())
    }

    /// The N such that all of 1..=N is in the set and N + 1 is not; 0 if 1 is
    /// missing. What a consistent prefix needs, unlike the largest number.
    pub fn watermark(&self) -> u64 {
        match self.spans().first() {
            Some(&(1, end)) => end,
            _ => 0,
        }
    }

    /// How many numbers the set holds. Exact: at most [`GNO_MAX`].
    pub fn count(&self) -> u64 {
        self.spans().iter().map(|span| span.1 - span.0 + 1).sum()
    }

    /// How many intervals the set is made of; gaps are one fewer.
    pub fn len(&self) -> usize {
        self.spans().len()
    }

    /// Whether the set holds no number.
    pub fn is_empty(&self) -> bool {
        matches!(self.repr, Repr::Empty)
    }

    /// The inclusive `(start, end)` intervals, ascending.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u64, u64)> + DoubleEndedIterator + '_ {
        self.spans().iter().copied()
    }

    /// Adds one number.
    pub fn insert(&mut self, gno: u64) {
        self.insert_range(gno, gno);
    }

    /// Adds `start..=end`, cut to 1..=[`GNO_MAX`]. A reversed range is empty,
    /// as it is to the server.
    pub fn insert_range(&mut self, start: u64, end: u64) {
        let (start, end) = (start.max(1), end.min(GNO_MAX));
        if start > end {
            return;
        }
        // Those touched: from the first that reaches start − 1 to the last
        // that begins by end + 1.
        let spans = self.spans();
        let from = spans.partition_point(|span| span.1 + 1 < start);
        let to = from + spans[from..].partition_point(|span| span.0 <= end + 1);
        let mut joined = (start, end);
        if let [first, ..] = &spans[from..to] {
            joined = (start.min(first.0), end.max(spans[to - 1].1));
        }
        self.replace(from..to, joined);
    }

    /// Puts one span in the place of those in `range`.
    fn replace(&mut self, range: Range<usize>, span: Span) {
        if self.spans()[range.clone()] == [span] {
            return; // Known already: do not unshare the memory for nothing.
        }
        match &mut self.repr {
            Repr::Many(spans) => {
                let spans = Arc::make_mut(spans);
                spans.splice(range, [span]);
                if spans.len() == 1 {
                    self.repr = Repr::One(span);
                }
            }
            Repr::One(only) if range.len() == 1 => *only = span,
            Repr::One(only) => {
                let mut spans = vec![*only];
                spans.splice(range, [span]);
                self.repr = Repr::Many(Arc::new(spans));
            }
            Repr::Empty => self.repr = Repr::One(span),
        }
    }

    /// Adds every number of `other`.
    pub fn union_with(&mut self, other: &Self) {
        if self.contains_all(other) {
            return; // The usual case when a token meets an older one.
        }
        if other.len() <= INSERT_EACH_MAX {
            for &(start, end) in other.spans() {
                self.insert_range(start, end);
            }
        } else if other.contains_all(self) {
            *self = other.clone();
        } else {
            *self = Self::from_normal(spans::union(self.spans(), other.spans()));
        }
    }

    /// The numbers of this set that are not in `other`.
    #[must_use]
    pub fn subtract(&self, other: &Self) -> Self {
        if self.is_same_memory(other) {
            return Self::default();
        }
        Self::from_normal(spans::subtract(self.spans(), other.spans()))
    }

    /// The numbers in both sets.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        if self.is_same_memory(other) {
            return self.clone();
        }
        Self::from_normal(spans::intersect(self.spans(), other.spans()))
    }

    /// Heap memory behind the set in bytes; shared memory counts in full.
    pub fn heap_bytes(&self) -> usize {
        match &self.repr {
            Repr::Empty | Repr::One(_) => 0,
            Repr::Many(spans) => {
                let counts = 2 * size_of::<usize>();
                counts + size_of::<Vec<Span>>() + spans.capacity() * size_of::<Span>()
            }
        }
    }

    fn spans(&self) -> &[Span] {
        match &self.repr {
            Repr::Empty => &[],
            Repr::One(span) => std::slice::from_ref(span),
            Repr::Many(spans) => spans,
        }
    }

    fn is_same_memory(&self, other: &Self) -> bool {
        match (&self.repr, &other.repr) {
            (Repr::Many(ours), Repr::Many(theirs)) => Arc::ptr_eq(ours, theirs),
            _ => false,
        }
    }
}

impl PartialEq for IntervalSet {
    fn eq(&self, other: &Self) -> bool {
        self.is_same_memory(other) || self.spans() == other.spans()
    }
}

impl Eq for IntervalSet {}

impl fmt::Debug for IntervalSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
