//! The GTID feed: what each server has executed, in ProxySQL's words.
//!
//! ProxySQL gates reads (`gtid_from_hostgroup`, `min_gtid`) by what a feed beside
//! each database tells it. The usual feed reads binary logs, and an event is
//! there before its row can be seen. This one tells what the server itself listed
//! as executed, in its present epoch, and nothing else: a released read finds its
//! row. Nothing has to run on the database's host but what answers at its name.
//!
//! `lines` is the encoder and `session` the rules of one connection, both pure;
//! `serve` listens and `connection` does the I/O of one. Nothing here asks a server anything, or
//! knows who is the source.

mod connection;
mod lines;
mod serve;
mod session;

pub(crate) use serve::left_out;
pub use serve::{FeedError, Feeds, Stats};
pub use session::End;
