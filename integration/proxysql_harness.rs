//! What was measured of ProxySQL 2.7.1, as tests that hold of the real one and
//! of the stand-in alike, so that a test against the stand-in means something.
//!
//! `PROXYSQL_BIN=… integration/test proxysql_harness` runs them against a real
//! one, `CAUSEWAY_PROXYSQL=standin …` against the stand-in.

mod admin;
mod gtid;
mod monitor;
mod support;
mod traffic;
