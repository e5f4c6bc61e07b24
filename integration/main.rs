//! Tests against real MySQL servers.

mod api;
mod deployment;
mod faults;
mod feed;
mod fences;
mod gtid_oracle;
mod gtid_test;
#[path = "harness/mod.rs"]
mod harness;
mod harness_test;
mod never;
mod process;
mod proxysql;
mod proxysql_check;
mod proxysql_harness;
mod routing;
mod stub_causeway;
mod support;
mod tls;
mod verify_test;
