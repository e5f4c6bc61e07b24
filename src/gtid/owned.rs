//! Reading `@@GLOBAL.gtid_owned`: the transactions that threads are executing.
//!
//! Why: a row can be visible before its GTID is in `gtid_executed`. The union
//! of what was owned and then what was executed covers that window.
//!
//! The form, from `Owned_gtids::to_string` in the server's `sql/rpl_gtid.h` and
//! seen on MySQL 9.7: per `Sid` the UUID, the tag if any, and `:number#thread`
//! for each transaction, in no order; **nothing** between one `Sid` and the
//! next, so that a thread number runs into the following UUID:
//!
//! ```text
//! 3e11fa47-…-c80aa9429562:3#86:1#873e11fa47-…-c80aa9429562:abc:12#88
//! ```
//!
//! A UUID has its first dash after eight digits, which tells where it begins.
//! Commas and white space between `Sid`s are read too, should a server ever
//! put some.
//!
//! What it must not know: when to ask for this and what to do with it.

use super::error::{ParseError, ParseErrorKind};
use super::parse::Limits;
use super::reader::Reader;
use super::set::GtidSet;
use super::sid::Gtid;

/// Hex digits of a UUID before its first dash.
const UUID_HEAD: usize = 8;

/// The GTIDs in the text of `@@GLOBAL.gtid_owned`; who owns them is dropped.
///
/// # Errors
/// [`ParseError`] if the text has another form (that of the session variable
/// has: no `#`), or is longer than [`Limits::SERVER`] allows.
pub fn parse_owned(text: &str) -> Result<GtidSet, ParseError> {
    let mut reader = Reader::limited(text.as_bytes(), Limits::SERVER.bytes_max)?;
    let mut owned = Vec::new();
    reader.skip_separators();
    while !reader.is_at_end() {
        let first = reader.gtid()?;
        owner(&mut reader)?;
        owned.push(first);
        while reader.skip_byte(b':') {
            let gno = reader.number(ParseErrorKind::Number, 1)?;
            owner(&mut reader)?;
            owned.push(Gtid { gno, ..first });
        }
        reader.skip_separators();
    }
    Ok(owned.into_iter().collect())
}

/// Moves past `#86`.
fn owner(reader: &mut Reader<'_>) -> Result<(), ParseError> {
    let Some(length) = owner_length(reader.rest()) else {
        return Err(reader.error(ParseErrorKind::Owner));
    };
    reader.skip(length);
    Ok(())
}

/// Length of the `#86` that the text begins with.
fn owner_length(text: &[u8]) -> Option<usize> {
    let thread = text.strip_prefix(b"#")?;
    let is_end = |byte: &u8| matches!(byte, b':' | b',' | 9..=13 | b' ');
    let run = thread.split(is_end).next()?;
    let digits = match run.iter().position(|&byte| byte == b'-') {
        // The run goes on into the next UUID.
        Some(dash) => &run[..dash.saturating_sub(UUID_HEAD)],
        None => run,
    };
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then_some(1 + digits.len())
}
