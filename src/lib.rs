//! Causeway: read-your-writes for MySQL behind ProxySQL.
//!
//! A sidecar that knows which transactions every replica has made visible,
//! remembers what each session last wrote, and tells where a read may go: to a
//! fresh replica, to a replica after a short wait, or to the source. The same
//! [`router`] serves a Rust application in process.
//!
//! Where things are: [`decide`](fn@route::decide) decides where a read may go. [`gtid`],
//! [`fleet`], [`session`] and [`route`] are the pure core: no tasks, no clock,
//! no MySQL. [`observe`] talks to the servers, [`router`] carries decisions out,
//! [`feed`] tells ProxySQL what is visible where, [`api`] and [`cli`] are the edges.

pub mod api;
pub mod check;
pub mod cli;
pub mod clock;
pub mod config;
pub mod feed;
pub mod fleet;
pub mod gtid;
pub mod moment;
pub mod observe;
pub mod proxysql;
#[cfg(test)]
mod purity;
pub mod requirement;
pub mod route;
pub mod router;
pub mod session;
pub mod verify;
