//! GTID sets: parse, print, compare, combine.
//!
//! What it is: MySQL's global transaction identifiers as plain values. A
//! transaction is a [`Gtid`]: a [`Sid`] (server UUID and, since MySQL 8.3, an
//! optional tag) and a number. What a server has executed, and what a read
//! requires, is a [`GtidSet`]; "fresh enough" is [`GtidSet::contains_set`].
//!
//! Why its own module: every promise Causeway makes rests on these
//! comparisons. They treat a set as a set (gaps, several UUIDs, tags), never as
//! its largest number, and they are checked against a naive model and against
//! a real server, which is the judge of the grammar and of the printed form.
//!
//! What it must not know: servers, sessions, clocks, sockets, the MySQL driver.
//! Nothing here does I/O, waits, or reads the time.

mod error;
mod intervals;
mod owned;
mod parse;
mod reader;
mod set;
mod sid;
mod spans;
mod text;

#[cfg(test)]
mod tests;

pub use error::{ParseError, ParseErrorKind};
pub use intervals::IntervalSet;
pub use owned::parse_owned;
pub use parse::Limits;
pub use set::GtidSet;
pub use sid::{GNO_MAX, Gtid, Sid, Tag, Uuid};
