//! Tests against real MySQL servers.

#[path = "harness/mod.rs"]
mod harness;
mod harness_test;
mod routing;
mod support;
