//! Real MySQL servers for the integration tests, the demo and the benchmarks.
//!
//! [`Topology`] is one source and its replicas, with every fault that a test
//! needs; [`shared`] lends one such topology to the tests of a process in turn.
//! The servers are those of `integration/get-mysql`, in fresh folders, on fresh
//! ports of 127.0.0.1, and they end with the process that started them, however
//! it ends ([`supervisor`]).
//!
//! The harness must not know Causeway: what it says about a server it has from
//! that server, so that a test can hold Causeway's word against it.

#![allow(dead_code, reason = "each test, demo and benchmark uses its own part")]

mod ask;
mod heal;
mod install;
mod mariadb;
mod place;
mod poll;
mod proxysql;
mod server;
mod settings;
mod shared;
mod supervisor;
mod template;
mod topology;
mod tracked;

#[allow(unused_imports, reason = "each user needs its own part")]
pub(crate) use self::{
    install::Install,
    mariadb::MariaDb,
    poll::until,
    proxysql::{Admin, Kind, ProxySql},
    server::{Server, ServerSpec},
    shared::{Lease, shared},
    topology::{Topology, TopologySpec},
    tracked::Tracked,
};
