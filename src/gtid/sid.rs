//! Names of transactions: [`Uuid`], [`Tag`], [`Sid`] and [`Gtid`].
//!
//! Why: MySQL numbers transactions per (UUID, tag), so that pair is the unit
//! of ordering; a type of its own keeps anyone from comparing numbers across
//! two of them. All are `Copy`, hold no heap memory, and order as the server
//! sorts them when it prints a set: UUID bytes first, then no tag before any
//! tag, then the tag's bytes.
//!
//! What it must not know: sets, and how the texts around a name are separated.

use std::cmp::Ordering;

/// The largest transaction number, 2⁶³ − 2.
///
/// The server's limit is exclusive at `i64::MAX`: it accepts
/// `uuid:9223372036854775806` and refuses one more (measured on MySQL 9.7; also
/// `sequence_number_max_inclusive` in `libs/mysql/gtids/sequence_number.h`).
pub const GNO_MAX: u64 = i64::MAX as u64 - 1;

/// A server's UUID: 128 bits, ordered by its bytes.
///
/// Reads the three forms the server reads (with dashes, with dashes in braces,
/// 32 bare hex digits; any case) and prints lower case with dashes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Uuid([u8; Self::BYTES]);

impl Uuid {
    /// Length in bytes.
    pub const BYTES: usize = 16;
    /// Length of the printed form in characters.
    pub const TEXT: usize = 36;

    /// From the 16 bytes of the binary form, as in binlog events.
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes of the binary form.
    pub const fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0
    }
}

/// Two registers instead of a call to `memcmp`; big-endian keeps byte order.
impl Ord for Uuid {
    fn cmp(&self, other: &Self) -> Ordering {
        u128::from_be_bytes(self.0).cmp(&u128::from_be_bytes(other.0))
    }
}

impl PartialOrd for Uuid {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A tag: up to 32 of `a`–`z`, `0`–`9` and `_`, not starting with a digit; or
/// none.
///
/// MySQL 8.3 and later. Upper case is read and stored as lower case, as the
/// server does. Unused bytes are zero, so that byte order is text order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Tag([u8; Self::BYTES_MAX]);

impl Tag {
    /// The longest tag, in bytes.
    pub const BYTES_MAX: usize = 32;
    /// No tag.
    pub const NONE: Self = Self([0; Self::BYTES_MAX]);

    /// Whether this is [`Tag::NONE`].
    pub const fn is_none(&self) -> bool {
        self.0[0] == 0
    }

    /// The tag's text; empty for [`Tag::NONE`].
    pub fn as_str(&self) -> &str {
        let len = self
            .0
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(Self::BYTES_MAX);
        str::from_utf8(&self.0[..len]).expect("a tag holds only ASCII")
    }

    /// From the bytes of a whole tag, or `None` if they break the rule above.
    /// Empty gives [`Tag::NONE`].
    pub(super) fn from_ascii(text: &[u8]) -> Option<Self> {
        let starts_well = !text.first().is_some_and(u8::is_ascii_digit);
        if !starts_well || text.len() > Self::BYTES_MAX || !text.iter().all(Self::is_tag_byte) {
            return None;
        }
        let mut bytes = [0; Self::BYTES_MAX];
        bytes[..text.len()].copy_from_slice(text);
        bytes.make_ascii_lowercase();
        Some(Self(bytes))
    }

    /// Whether the byte may stand in a tag, at least after the first place.
    ///
    /// ASCII only. MySQL 9.7 accepts some bytes above 127 by accident (it
    /// indexes its table with a signed byte, i.e. out of bounds); that is the
    /// one place where this module refuses what a server may take.
    pub(super) fn is_tag_byte(byte: &u8) -> bool {
        byte.is_ascii_alphanumeric() || *byte == b'_'
    }

    fn halves(&self) -> [u128; 2] {
        let (halves, _) = self.0.as_chunks();
        [halves[0], halves[1]].map(u128::from_be_bytes)
    }
}

impl Ord for Tag {
    fn cmp(&self, other: &Self) -> Ordering {
        self.halves().cmp(&other.halves())
    }
}

impl PartialOrd for Tag {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Where a transaction number belongs: a UUID and a tag. 48 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sid {
    /// The server (or Group Replication group) the transaction comes from.
    pub uuid: Uuid,
    /// Its tag, or [`Tag::NONE`].
    pub tag: Tag,
}

impl From<Uuid> for Sid {
    /// The untagged transactions of a UUID.
    fn from(uuid: Uuid) -> Self {
        let tag = Tag::NONE;
        Self { uuid, tag }
    }
}

/// One transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gtid {
    /// Where the number belongs.
    pub sid: Sid,
    /// The transaction number, 1..=[`GNO_MAX`].
    pub gno: u64,
}

impl Gtid {
    /// A transaction, or `None` if the number is outside 1..=[`GNO_MAX`].
    ///
    /// The way in for a number that a peer sent.
    pub fn new(sid: Sid, gno: u64) -> Option<Self> {
        (1..=GNO_MAX).contains(&gno).then_some(Self { sid, gno })
    }
}
