//! What a server is told in its option file.
//!
//! Everything that decides about durability and ordering is MySQL's default,
//! because that is what users run; only sizes are small, so that a topology
//! starts fast and fits beside others.

use std::{fmt::Write as _, path::Path};

use super::install::Install;

/// Sizes and places, for `--initialize-insecure` and for every start.
const ALWAYS: &str = "\
secure_file_priv=NULL
loose_mysqlx=OFF
innodb_buffer_pool_size=32M
innodb_redo_log_capacity=16M
innodb_log_buffer_size=1M
innodb_use_native_aio=OFF
max_connections=300
table_open_cache=400
table_definition_cache=400
performance_schema_accounts_size=20
performance_schema_hosts_size=20
performance_schema_users_size=20
performance_schema_digests_size=200
";

/// What makes a server a member of a replicated topology.
const REPLICATED: &str = "\
gtid_mode=ON
enforce_gtid_consistency=ON
log_bin=binlog
relay_log=relay
log_replica_updates=ON
relay_log_recovery=ON
replica_parallel_workers=4
replica_preserve_commit_order=ON
replica_net_timeout=10
bind_address=127.0.0.1
report_host=127.0.0.1
skip_name_resolve=ON
";

/// What differs from server to server.
#[derive(Debug)]
pub(crate) struct Own<'a> {
    pub(crate) id: u32,
    pub(crate) port: u16,
    /// For how long to try again when the port is taken, in seconds.
    pub(crate) port_patience: u32,
    pub(crate) options: &'a [String],
}

/// The option file of a server whose files are in `folder`.
pub(crate) fn option_file(install: &Install, folder: &Path, own: &Own<'_>) -> String {
    let mut text = base(install, folder);
    text.push_str(REPLICATED);
    let Own {
        id,
        port,
        port_patience,
        options,
    } = own;
    let _ = writeln!(text, "server_id={id}\nport={port}\nreport_port={port}");
    let _ = writeln!(text, "port_open_timeout={port_patience}");
    for option in *options {
        let _ = writeln!(text, "{}", option.trim_start_matches('-'));
    }
    text
}

/// The option file for making a data directory in `folder`.
pub(crate) fn initialise_file(install: &Install, folder: &Path) -> String {
    let users = folder.join("users.sql");
    format!("{}init_file={}\n", base(install, folder), users.display())
}

fn base(install: &Install, folder: &Path) -> String {
    let mut text = String::from("[mysqld]\n");
    text.push_str(ALWAYS);
    for (name, path) in install.own_files() {
        let _ = writeln!(text, "{name}={}", path.display());
    }
    for (name, file) in [
        ("datadir", "data"),
        ("socket", "mysqld.sock"),
        ("pid_file", "mysqld.pid"),
        ("log_error", "error.log"),
    ] {
        let _ = writeln!(text, "{name}={}", folder.join(file).display());
    }
    text
}

/// mysqld refuses to run as root unless it is told so.
pub(crate) fn run_as(folder: &Path) -> std::io::Result<Option<&'static str>> {
    use std::os::unix::fs::MetadataExt as _;
    let owner = std::fs::metadata(folder)?.uid();
    Ok((owner == 0).then_some("--user=root"))
}
