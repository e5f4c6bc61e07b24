//! The tokens of GTID texts: UUID, tag, number, punctuation.
//!
//! What it is: a position in a text and what can be read there. Each token is
//! either moved past, or answered with an error that points at what stands in
//! its place.
//!
//! Why by hand: error positions, and no allocation per token. Bytes, not
//! `str`: nothing above 127 is ever valid.
//!
//! What it must not know: how tokens make a set; see `parse` and `owned`.

use super::error::{ParseError, ParseErrorKind};
use super::sid::{GNO_MAX, Gtid, Sid, Tag, Uuid};

/// A text and how far it has been read.
pub(super) struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn limited(text: &'a [u8], bytes_max: usize) -> Result<Self, ParseError> {
        if text.len() > bytes_max {
            let kind = ParseErrorKind::Bytes(bytes_max);
            return Err(ParseError::new(kind, text, bytes_max));
        }
        Ok(Self::new(text))
    }

    pub(super) fn error(&self, kind: ParseErrorKind) -> ParseError {
        ParseError::new(kind, self.text, self.at)
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    pub(super) fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }

    pub(super) fn is_at_tag(&self) -> bool {
        self.peek()
            .is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
    }

    pub(super) fn skip_byte(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    pub(super) fn skip_space(&mut self) {
        while matches!(self.peek(), Some(9..=13 | b' ')) {
            self.at += 1;
        }
    }

    /// White space and commas, in any number: empty elements are nothing.
    pub(super) fn skip_separators(&mut self) {
        self.skip_space();
        while self.skip_byte(b',') {
            self.skip_space();
        }
    }

    pub(super) fn uuid(&mut self) -> Result<Uuid, ParseError> {
        let Some((uuid, length)) = uuid_prefix(self.rest()) else {
            return Err(self.error(ParseErrorKind::Uuid));
        };
        self.at += length;
        Ok(uuid)
    }

    pub(super) fn tag(&mut self) -> Result<Tag, ParseError> {
        let rest = self.rest();
        let length = rest
            .iter()
            .take_while(|byte| Tag::is_tag_byte(byte))
            .count();
        let Some(tag) = Tag::from_ascii(&rest[..length]) else {
            return Err(self.error(ParseErrorKind::Tag));
        };
        self.at += length;
        Ok(tag)
    }

    /// A decimal number within `min..=GNO_MAX`; `missing` if there is no digit.
    pub(super) fn number(&mut self, missing: ParseErrorKind, min: u64) -> Result<u64, ParseError> {
        let rest = self.rest();
        let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if length == 0 {
            return Err(self.error(missing));
        }
        let value = rest[..length].iter().try_fold(0_u64, |value, digit| {
            value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        });
        match value {
            Some(value) if (min..=GNO_MAX).contains(&value) => {
                self.at += length;
                Ok(value)
            }
            _ => Err(self.error(ParseErrorKind::Range)),
        }
    }

    /// `uuid:5` or `uuid:tag:5`, up to the end of the number.
    pub(super) fn gtid(&mut self) -> Result<Gtid, ParseError> {
        let mut sid = Sid::from(self.uuid()?);
        self.colon()?;
        let mut missing = ParseErrorKind::Item;
        if self.is_at_tag() {
            sid.tag = self.tag()?;
            self.colon()?;
            missing = ParseErrorKind::Number;
        }
        let gno = self.number(missing, 1)?;
        Ok(Gtid { sid, gno })
    }

    fn colon(&mut self) -> Result<(), ParseError> {
        self.skip_space();
        if !self.skip_byte(b':') {
            return Err(self.error(ParseErrorKind::Item));
        }
        self.skip_space();
        Ok(())
    }

    /// Fails unless only white space is left.
    pub(super) fn finish(mut self) -> Result<(), ParseError> {
        self.skip_space();
        match self.is_at_end() {
            true => Ok(()),
            false => Err(self.error(ParseErrorKind::End)),
        }
    }
}

/// The UUID that the text begins with, and its length.
fn uuid_prefix(text: &[u8]) -> Option<(Uuid, usize)> {
    let braced = text.first() == Some(&b'{');
    let dashed = braced || text.get(8) == Some(&b'-');
    let mut at = usize::from(braced);
    let mut bytes = [0; Uuid::BYTES];
    for (index, byte) in bytes.iter_mut().enumerate() {
        if dashed && matches!(index, 4 | 6 | 8 | 10) {
            (text.get(at)? == &b'-').then_some(())?;
            at += 1;
        }
        *byte = hex_digit(*text.get(at)?)? << 4 | hex_digit(*text.get(at + 1)?)?;
        at += 2;
    }
    if braced {
        (text.get(at)? == &b'}').then_some(())?;
        at += 1;
    }
    Some((Uuid::from_bytes(bytes), at))
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}
