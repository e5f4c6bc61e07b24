//! Algebra on sorted lists of spans, the engine under `IntervalSet`.
//!
//! What it is: functions over slices of inclusive `(start, end)` pairs that are
//! sorted, disjoint and not adjacent ("normal"), with 1 ≤ start ≤ end ≤
//! `GNO_MAX`. Given normal input, every result is normal.
//!
//! Why apart: storage (inline, shared) changes nothing here. A short list
//! meets a long one most of the time (a token against a server's set), so the
//! walks skip ahead by doubling steps: O(short · log long), and never worse
//! than linear in both.
//!
//! What it must not know: who owns the memory, and whose numbers these are.

/// An inclusive range of transaction numbers, `(start, end)`.
pub(super) type Span = (u64, u64);

/// Index of the first span at or after `from` that ends at or after `gno`.
pub(super) fn seek(spans: &[Span], from: usize, gno: u64) -> usize {
    let rest = &spans[from..];
    let mut step = 1;
    while step < rest.len() && rest[step - 1].1 < gno {
        step *= 2;
    }
    // Everything before the previous step is known to end before `gno`.
    let known = step / 2;
    let window = &rest[known..step.min(rest.len())];
    from + known + window.partition_point(|span| span.1 < gno)
}

/// Whether the number lies in a span.
pub(super) fn contains(spans: &[Span], gno: u64) -> bool {
    let index = spans.partition_point(|span| span.1 < gno);
    spans.get(index).is_some_and(|span| span.0 <= gno)
}

/// Whether every number of `inner` is in `outer`.
pub(super) fn covers(outer: &[Span], inner: &[Span]) -> bool {
    let mut at = 0;
    inner.iter().all(|&(start, end)| {
        at = seek(outer, at, start);
        outer
            .get(at)
            .is_some_and(|span| span.0 <= start && end <= span.1)
    })
}

/// The numbers in either.
pub(super) fn union(left: &[Span], right: &[Span]) -> Vec<Span> {
    let mut out = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    loop {
        let next = match (left.peek(), right.peek()) {
            (Some(l), Some(r)) if l.0 <= r.0 => left.next(),
            (_, Some(_)) => right.next(),
            (_, None) => left.next(),
        };
        let Some(&span) = next else { return out };
        push_joining(&mut out, span);
    }
}

/// The numbers of `left` that are not in `right`.
pub(super) fn subtract(left: &[Span], right: &[Span]) -> Vec<Span> {
    let mut out = Vec::new();
    let mut at = 0;
    for &(mut start, end) in left {
        at = seek(right, at, start);
        while let Some(cut) = right.get(at).filter(|cut| cut.0 <= end) {
            if start < cut.0 {
                out.push((start, cut.0 - 1));
            }
            start = cut.1 + 1;
            if cut.1 > end {
                break;
            }
            at += 1;
        }
        if start <= end {
            out.push((start, end));
        }
    }
    out
}

/// The numbers in both.
pub(super) fn intersect(left: &[Span], right: &[Span]) -> Vec<Span> {
    let mut out = Vec::new();
    let (mut l, mut r) = (0, 0);
    while r < right.len() {
        l = seek(left, l, right[r].0);
        let Some(&(l_start, l_end)) = left.get(l) else {
            break;
        };
        r = seek(right, r, l_start);
        let Some(&(r_start, r_end)) = right.get(r) else {
            break;
        };
        let (start, end) = (l_start.max(r_start), l_end.min(r_end));
        if start <= end {
            out.push((start, end));
        }
        if l_end < r_end {
            l += 1;
        } else {
            r += 1;
        }
    }
    out
}

/// Sorts and joins spans that came in any order, overlapping or adjacent.
pub(super) fn normalise(mut spans: Vec<Span>) -> Vec<Span> {
    if spans.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0) {
        return spans;
    }
    spans.sort_unstable();
    let mut out = Vec::with_capacity(spans.len());
    for span in spans {
        push_joining(&mut out, span);
    }
    out
}

/// Appends a span that starts no earlier than the last one; joins the two if
/// they touch.
fn push_joining(out: &mut Vec<Span>, span: Span) {
    match out.last_mut() {
        Some(last) if span.0 <= last.1 + 1 => last.1 = last.1.max(span.1),
        _ => out.push(span),
    }
}
