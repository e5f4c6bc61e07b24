//! What one GTID feed has said, read line by line as ProxySQL 2.7.1 reads it,
//! mistakes included: a feed must be right for that reader, not for a good one.
//!
//! Where 2.7.1 reads memory that nobody has set, zeros stand here; a line that
//! would end its process is [`Fatal`] here.

use std::collections::BTreeMap;

/// The longest line that 2.7.1 survives, unless it begins with `ST=`.
const LINE_BYTES_MAX: usize = 80;

/// A line that makes 2.7.1 write past a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fatal;

/// The set, and what later lines build upon.
#[derive(Clone, Debug, Default)]
pub(super) struct FeedSet {
    intervals: BTreeMap<String, Vec<(i64, i64)>>,
    /// The UUID of the last line that had one: `I2` lacks it.
    uuid: String,
    pub(super) events: i64,
}

impl FeedSet {
    /// Takes one line, without its line feed.
    pub(super) fn line(&mut self, line: &str) -> Result<(), Fatal> {
        if let Some(set) = line.strip_prefix("ST=") {
            self.start(set);
            return Ok(());
        }
        if line.len() > LINE_BYTES_MAX {
            return Err(Fatal);
        }
        let Some(event) = line.strip_prefix('I') else {
            return Ok(());
        };
        let number = match (event.get(..1), event.get(2..)) {
            (Some("1"), Some(gtid)) => {
                let (uuid, number) = gtid.split_once(':').ok_or(Fatal)?;
                self.uuid = uuid.to_owned();
                leading_number(number)
            }
            (Some("2"), Some(number)) => leading_number(number),
            _ => 0,
        };
        self.add(number);
        self.events += 1;
        Ok(())
    }

    /// Whether the feed has said that this transaction is there.
    pub(super) fn contains(&self, uuid: &str, number: i64) -> bool {
        let intervals = self.intervals.get(uuid).map_or(&[][..], Vec::as_slice);
        intervals
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&number))
    }

    // Each UUID stays in its buffer and the next is written over it, without
    // an end; an interval that cannot be read is the one before it.
    fn start(&mut self, set: &str) {
        let (mut first, mut last) = (0, 0);
        for member in set.split(',').filter(|member| !member.is_empty()) {
            let parts = member.split(':').filter(|part| !part.is_empty());
            for (index, part) in parts.enumerate() {
                if index % 2 == 0 {
                    let new = part.replace('-', "");
                    let rest = self.uuid.get(new.len()..).unwrap_or_default();
                    self.uuid = format!("{new}{rest}");
                    continue;
                }
                let (from, to) = part.split_once('-').unwrap_or((part, ""));
                if starts_with_digit(from) {
                    first = leading_number(from);
                    if starts_with_digit(to) {
                        last = leading_number(to);
                    }
                }
                let intervals = self.intervals.entry(self.uuid.clone()).or_default();
                intervals.push((first, last));
            }
        }
    }

    fn add(&mut self, number: i64) {
        let intervals = self.intervals.entry(self.uuid.clone()).or_default();
        if intervals
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&number))
        {
            return;
        }
        let at = intervals
            .iter()
            .position(|(first, _)| number < *first)
            .unwrap_or(intervals.len());
        intervals.insert(at, (number, number));
        let mut merged: Vec<(i64, i64)> = Vec::new();
        for (first, last) in intervals.drain(..) {
            match merged.last_mut() {
                Some(before) if before.1 + 1 == first => before.1 = last,
                _ => merged.push((first, last)),
            }
        }
        *intervals = merged;
    }
}

impl std::fmt::Display for FeedSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut comma = "";
        for (uuid, intervals) in &self.intervals {
            for (first, last) in intervals {
                write!(f, "{comma}{}:{first}-{last}", dashed(uuid))?;
                comma = ",";
            }
        }
        Ok(())
    }
}

fn dashed(uuid: &str) -> String {
    let mut text = uuid.to_owned();
    for at in [8, 13, 18, 23] {
        if text.is_char_boundary(at) && at <= text.len() {
            text.insert(at, '-');
        }
    }
    text
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_digit())
}

/// The digits that a text begins with, as a number; 0 without any.
pub(super) fn leading_number(text: &str) -> i64 {
    let text = text.trim_start();
    let end = text.find(|letter: char| !letter.is_ascii_digit());
    text[..end.unwrap_or(text.len())].parse().unwrap_or(0)
}
