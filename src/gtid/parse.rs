//! Reading GTIDs and GTID sets.
//!
//! What it is: MySQL's grammar, as MySQL 9.7 reads it (`libs/mysql/gtids` and
//! `libs/mysql/sets` in the server's source; compared with a running server by
//! the integration tests):
//!
//! ```text
//! set      = { "," } [ group { "," { "," } group } ] { "," }
//! group    = uuid { ":" ( tag | interval ) }
//! interval = number [ "-" number ]
//! uuid     = 8-4-4-4-12 hex digits, the same in braces, or 32 hex digits
//! tag      = a letter or "_", then up to 31 letters, digits or "_"
//! ```
//!
//! White space (bytes 9–13 and 32) may stand around every token. A tag holds
//! for the intervals that follow it, up to the next tag or the end of its
//! group; a UUID may come again. A reversed interval is empty, a group or tag
//! without intervals adds nothing. Numbers are decimal, leading zeros allowed.
//!
//! That is `GTID_SUBSET` and `GTID_SUBTRACT`. An older reader, in servers before
//! and still behind `WAIT_FOR_EXECUTED_GTID_SET` and `gtid_purged` in 9.7, knows
//! only UUIDs of 36 characters, takes signs, hexadecimal numbers and `5-`
//! (empty), which are refused here, and takes a leading zero for octal. All
//! servers agree on the printed form, so print a set before sending it to one.
//!
//! What it must not know: how sets are stored beyond the builder it feeds.

use std::str::FromStr;

use super::error::{ParseError, ParseErrorKind};
use super::reader::Reader;
use super::set::{Builder, GtidSet};
use super::sid::{Gtid, Sid, Tag, Uuid};

/// How large a text may be before it is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest text, in bytes.
    pub bytes_max: usize,
    /// The most intervals, counted as written, before any are joined.
    pub intervals_max: usize,
}

impl Limits {
    /// For what servers report, and the default: 16 MiB, 1,000,000 intervals.
    /// Room for ten times the gaps of a badly fragmented server; a text within
    /// these bounds takes at most some 64 MiB of memory.
    pub const SERVER: Self = Self {
        bytes_max: 16 << 20,
        intervals_max: 1_000_000,
    };
    /// For what callers hand in, a token or a write: 64 KiB, 4,096 intervals.
    /// A fence on a fragmented source fits; a flood of them does no harm.
    pub const TOKEN: Self = Self {
        bytes_max: 64 << 10,
        intervals_max: 4_096,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::SERVER
    }
}

/// Reads a GTID set.
pub(super) fn set(text: &[u8], limits: Limits) -> Result<GtidSet, ParseError> {
    let mut reader = Reader::limited(text, limits.bytes_max)?;
    let mut builder = Counted {
        set: Builder::default(),
        room: limits.intervals_max,
        intervals_max: limits.intervals_max,
    };
    reader.skip_separators();
    while !reader.is_at_end() {
        group(&mut reader, &mut builder)?;
        if !reader.is_at_end() && reader.peek() != Some(b',') {
            return Err(reader.error(ParseErrorKind::Separator));
        }
        reader.skip_separators();
    }
    Ok(builder.set.finish())
}

/// One UUID with its tags and intervals.
fn group(reader: &mut Reader<'_>, builder: &mut Counted) -> Result<(), ParseError> {
    let mut sid = Sid::from(reader.uuid()?);
    reader.skip_space();
    while reader.skip_byte(b':') {
        reader.skip_space();
        if reader.is_at_tag() {
            sid.tag = reader.tag()?;
            reader.skip_space();
        } else {
            interval(reader, builder, sid)?;
        }
    }
    Ok(())
}

/// `5` or `5-7`; leaves the reader after the white space that follows.
fn interval(reader: &mut Reader<'_>, builder: &mut Counted, sid: Sid) -> Result<(), ParseError> {
    if builder.room == 0 {
        return Err(reader.error(ParseErrorKind::Intervals(builder.intervals_max)));
    }
    builder.room -= 1;
    let start = reader.number(ParseErrorKind::Item, 1)?;
    let mut end = start;
    reader.skip_space();
    if reader.skip_byte(b'-') {
        reader.skip_space();
        // Zero is allowed here, and makes the interval a reversed one.
        end = reader.number(ParseErrorKind::Number, 0)?;
        reader.skip_space();
    }
    if start <= end {
        builder.set.add(sid, (start, end));
    }
    Ok(())
}

/// A set being read, and how many more intervals it may have.
struct Counted {
    set: Builder,
    room: usize,
    intervals_max: usize,
}

/// Reads one whole value with white space around it.
fn whole<'a, T>(
    text: &'a str,
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, ParseError>,
) -> Result<T, ParseError> {
    let mut reader = Reader::new(text.as_bytes());
    reader.skip_space();
    let value = read(&mut reader)?;
    reader.finish()?;
    Ok(value)
}

impl FromStr for Uuid {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        whole(text, Reader::uuid)
    }
}

impl FromStr for Tag {
    type Err = ParseError;

    /// Empty text is [`Tag::NONE`].
    fn from_str(text: &str) -> Result<Self, ParseError> {
        whole(text, Reader::tag)
    }
}

impl FromStr for Gtid {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        whole(text, Reader::gtid)
    }
}

impl FromStr for GtidSet {
    type Err = ParseError;

    /// Within [`Limits::SERVER`].
    fn from_str(text: &str) -> Result<Self, ParseError> {
        set(text.as_bytes(), Limits::SERVER)
    }
}
