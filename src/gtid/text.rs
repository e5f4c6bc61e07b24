//! Printing, and serde as text.
//!
//! What it is: `Display` (and `Debug`, which is the same) in the form the
//! server prints: lower case, intervals joined and ascending, `Sid`s in order,
//! a UUID once with all its tags: `uuid:1-5:7-9:tag:1-3`. A set is one line
//! with `,` between UUIDs, fit for a cookie or a header; `{:#}` puts the
//! server's `,\n` there.
//!
//! Why serde goes through text: it is the form every other tool reads, and the
//! parser is the one place that checks.
//!
//! What it must not know: the wire types these texts appear in.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use super::intervals::IntervalSet;
use super::set::GtidSet;
use super::sid::{Gtid, Sid, Tag, Uuid};

/// Room for the decimal digits of any `u64`.
const DIGITS_MAX: usize = 20;

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut text = [b'-'; Self::TEXT];
        let mut at = 0;
        for (index, byte) in self.to_bytes().into_iter().enumerate() {
            at += usize::from(matches!(index, 4 | 6 | 8 | 10));
            text[at] = HEX[usize::from(byte >> 4)];
            text[at + 1] = HEX[usize::from(byte & 15)];
            at += 2;
        }
        f.write_str(ascii(&text))
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.uuid, f)?;
        write_tag(f, &self.tag)
    }
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.sid, f)?;
        write_number(f, b':', self.gno)
    }
}

impl fmt::Display for GtidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let between = if f.alternate() { ",\n" } else { "," };
        let mut last = None;
        for (sid, set) in self.sids() {
            if last != Some(sid.uuid) {
                f.write_str(if last.is_some() { between } else { "" })?;
                fmt::Display::fmt(&sid.uuid, f)?;
                last = Some(sid.uuid);
            }
            write_tag(f, &sid.tag)?;
            write_intervals(f, set)?;
        }
        Ok(())
    }
}

fn write_tag(f: &mut fmt::Formatter<'_>, tag: &Tag) -> fmt::Result {
    if tag.is_none() {
        return Ok(());
    }
    f.write_str(":")?;
    f.write_str(tag.as_str())
}

fn write_intervals(f: &mut fmt::Formatter<'_>, set: &IntervalSet) -> fmt::Result {
    for (start, end) in set.iter() {
        write_number(f, b':', start)?;
        if start < end {
            write_number(f, b'-', end)?;
        }
    }
    Ok(())
}

/// A sign and a number in one write: a fragmented set has 200,000 of them, and
/// `write!` costs more than the digits do.
fn write_number(f: &mut fmt::Formatter<'_>, sign: u8, mut number: u64) -> fmt::Result {
    let mut text = [0; 1 + DIGITS_MAX];
    let mut at = text.len();
    loop {
        at -= 1;
        text[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    at -= 1;
    text[at] = sign;
    f.write_str(ascii(&text[at..]))
}

fn ascii(text: &[u8]) -> &str {
    str::from_utf8(text).expect("digits and dashes are ASCII")
}

/// `Debug` as the plain text, and serde as a string.
macro_rules! text_value {
    ($type:ty, $expecting:literal) => {
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $type;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }

                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$type, E> {
                        <$type>::from_str(text).map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }
    };
}

text_value!(Uuid, "a UUID");
text_value!(Gtid, "a GTID such as uuid:5 or uuid:tag:5");
text_value!(GtidSet, "a GTID set such as uuid:1-5:7:tag:1-3");

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl fmt::Debug for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
