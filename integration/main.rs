//! Tests against real MySQL servers.

#[path = "harness/mod.rs"]
mod harness;
mod harness_test;
mod never;
mod routing;
mod stub_causeway;
mod support;
mod verify_test;
