//! [`ParseError`]: what is wrong with a GTID text, and where.
//!
//! Why: these texts come from people, cookies and job payloads; an answer of
//! "malformed" helps nobody find the character in 8 KB. The text is hostile
//! until proven otherwise, so only a short, escaped piece of it is kept.
//!
//! What it must not know: who sent the text or how the error is reported.

use std::fmt;

use super::sid::GNO_MAX;

/// How much of the offending part an error shows, in bytes of the input.
const SHOWN_BYTES_MAX: usize = 24;

/// A text that is not a GTID, a GTID set, or one of their parts.
///
/// Prints as `expected a UUID at byte 0, found "xyz"`: at most 24 bytes of the
/// offending part, everything but printable ASCII escaped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ParseError {
    kind: ParseErrorKind,
    position: usize,
    found: String,
}

/// What is wrong with the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// No UUID where one must be.
    #[error("expected a UUID")]
    Uuid,
    /// Neither a number nor a tag after `:`.
    #[error("expected a number or a tag")]
    Item,
    /// No number where only a number may be: after `-`, and at the end of a
    /// single GTID.
    #[error("expected a number")]
    Number,
    /// A number MySQL does not have; see [`GNO_MAX`].
    #[error("expected a number within 1..={GNO_MAX}")]
    Range,
    /// Not a tag: a wrong character, a leading digit, or more than 32.
    #[error("expected a tag of at most 32 letters, digits and '_'")]
    Tag,
    /// Something after a complete interval or UUID that cannot follow it.
    #[error("expected ':', ',' or the end")]
    Separator,
    /// Something after a complete value.
    #[error("expected the end")]
    End,
    /// No `#` and thread number after an owned GTID.
    #[error("expected '#' and a thread number")]
    Owner,
    /// Over [`super::Limits::bytes_max`], the value given.
    #[error("expected at most {0} bytes")]
    Bytes(usize),
    /// Over [`super::Limits::intervals_max`], the value given.
    #[error("expected at most {0} intervals")]
    Intervals(usize),
}

impl ParseError {
    /// An error about what stands at `position` in `text`.
    pub(super) fn new(kind: ParseErrorKind, text: &[u8], position: usize) -> Self {
        let rest = &text[position.min(text.len())..];
        let shown = &rest[..rest.len().min(SHOWN_BYTES_MAX)];
        let mut found = shown.escape_ascii().to_string();
        if shown.len() < rest.len() {
            found.push('…');
        }
        Self {
            kind,
            position,
            found,
        }
    }

    /// What is wrong.
    pub fn kind(&self) -> ParseErrorKind {
        self.kind
    }

    /// Where, as a byte offset into the text; its length if the text ended too
    /// early.
    pub fn position(&self) -> usize {
        self.position
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            position,
            found,
        } = self;
        write!(f, "{kind} at byte {position}, found ")?;
        if found.is_empty() {
            return f.write_str("the end");
        }
        write!(f, "\"{found}\"")
    }
}
