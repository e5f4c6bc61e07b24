//! ProxySQL, kept in step with what is known of the servers.
//!
//! ProxySQL users keep their rules and their pools; Causeway makes the reads
//! right, in two ways. **Tiers** are reader hostgroups that offer exactly the
//! replicas within a staleness bound. **Hints** are hostgroups of one server
//! each, so that a routed read can be sent to its server by a comment.
//!
//! [`tier`], [`want`] and [`plan`] are pure: who belongs into a tier, how the
//! rows should be, and the difference as statements. [`controller`] and what it
//! uses talk to the instances. [`init`] and `check` answer a person's questions: how
//! would Causeway be configured here, and what stands in its way? What ProxySQL does in which case was measured on
//! 2.7.1; `plan` tells which of it matters where.

pub(crate) mod admin;
pub(crate) mod apply;
mod by_hand;
pub(crate) mod check;
pub mod controller;
mod follow;
pub mod held;
pub mod hints;
pub mod init;
mod instance;
mod lease;
pub(crate) mod look;
pub mod once;
mod pace;
pub mod plan;
pub(crate) mod read;
pub mod rows;
mod statement;
pub mod survey;
#[cfg(test)]
pub(crate) mod testing;
pub mod tier;
pub mod version;
pub mod want;

pub use admin::{AdminError, AdminLogin};
pub use controller::{Controller, Settings};
pub use held::Held;
pub use hints::Hints;
pub(crate) use lease::{HOST as LEASE_HOST, NAME_MAX as LEASE_MAX};
