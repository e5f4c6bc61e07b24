//! A draft as a commented file. Pure.

use std::fmt::Write as _;

use super::{Draft, MYSQL_PASSWORD_ENV, Origin, PasswordKey};
use crate::proxysql::rows::Address;
use crate::proxysql::survey::Survey;

/// The file.
pub fn text(survey: &Survey, draft: &Draft, origin: &Origin) -> String {
    let mut text = String::new();
    write_all(&mut text, survey, draft, origin).expect("a String takes every write");
    text
}

fn write_all(
    out: &mut String,
    survey: &Survey,
    draft: &Draft,
    origin: &Origin,
) -> std::fmt::Result {
    let version = survey.snapshot.version;
    writeln!(
        out,
        "# Causeway's configuration, learnt from ProxySQL {version} at {}.\n\
         # Left out is what has its default; config/causeway.toml of the project shows\n\
         # every key. Next: causeway check --config FILE\n",
        origin.address.escape_debug()
    )?;
    mysql(out, survey, draft)?;
    proxysql(out, survey, origin)?;
    hints(out, draft)?;
    tiers(out, survey, draft)
}

fn mysql(out: &mut String, survey: &Survey, draft: &Draft) -> std::fmt::Result {
    let user = survey
        .variable("mysql-monitor_username")
        .unwrap_or("monitor");
    let shown = user.escape_debug();
    writeln!(
        out,
        "[mysql]\n\
         # ProxySQL's monitor user. What it needs, granted on the source:\n\
         #   GRANT REPLICATION CLIENT ON *.* TO '{shown}'@'%';\n\
         #   GRANT SELECT ON performance_schema.* TO '{shown}'@'%';\n\
         user = {}\n\
         # Its password is ProxySQL's mysql-monitor_password.\n\
         password_env = {}",
        quoted(user),
        quoted(MYSQL_PASSWORD_ENV)
    )?;
    if draft.tls {
        writeln!(
            out,
            "# As ProxySQL: use_ssl is 1 for every server.\ntls = \"required\""
        )?;
    }
    if draft.pairs.is_empty() {
        writeln!(
            out,
            "# ProxySQL has no pair of writer and reader hostgroups that would tell topologies\n\
             # apart: all of its servers are here. Keep those of one topology."
        )?;
    }
    writeln!(out, "servers = [")?;
    for (number, address) in draft.servers.iter().enumerate() {
        let note = if draft.writers.contains(address) {
            "  # in the writer hostgroup now"
        } else {
            ""
        };
        let (name, address) = (format!("db{}", number + 1), quoted(&shown_address(address)));
        writeln!(out, "    {{ name = {name:?}, address = {address} }},{note}")?;
    }
    writeln!(out, "]")?;
    for address in &draft.left_out {
        let address = shown_address(address);
        writeln!(out, "# Of another topology: {}", address.escape_debug())?;
    }
    writeln!(out)
}

fn proxysql(out: &mut String, survey: &Survey, origin: &Origin) -> std::fmt::Result {
    let password = match &origin.password {
        PasswordKey::Env(name) => format!("password_env = {}", quoted(name)),
        PasswordKey::File(path) => format!("password_file = {}", quoted(&path.to_string_lossy())),
    };
    writeln!(
        out,
        "[proxysql]\n# A user of admin-admin_credentials.\nuser = {}\n{password}\ninstances = [",
        quoted(&origin.user)
    )?;
    let address = quoted(&origin.address);
    writeln!(out, "    {{ name = \"proxysql1\", address = {address} }},")?;
    let others = survey.snapshot.cluster.iter();
    for (number, node) in others.filter(|node| **node != origin.address).enumerate() {
        let (name, node) = (format!("proxysql{}", number + 2), quoted(node));
        writeln!(
            out,
            "    # Of the same cluster, for when the first is down:"
        )?;
        writeln!(out, "    # {{ name = {name:?}, address = {node} }},")?;
    }
    writeln!(out, "]\n")
}

fn hints(out: &mut String, draft: &Draft) -> std::fmt::Result {
    let base = draft.base;
    let last = base + u32::try_from(draft.servers.len()).unwrap_or(u32::MAX);
    writeln!(
        out,
        "# One hostgroup for each server, {} to {last}, none of which is in use: a read that\n\
         # begins with /* hostgroup=N */ goes to that server. Causeway makes the rows.\n\
         [proxysql.hints]\nbase = {base}",
        base + 1
    )
}

fn tiers(out: &mut String, survey: &Survey, draft: &Draft) -> std::fmt::Result {
    for (writer, reader) in &draft.pairs {
        writeln!(
            out,
            "\n# Reader hostgroup {reader}, of the writers in {writer}. With this switched on, Causeway\n\
             # decides which replicas it offers: those at most max_staleness behind, and the\n\
             # source when there are none. That changes what your rules reach there, so it is\n\
             # switched on by you: take away the \"# \" of the next three lines."
        )?;
        if !survey.snapshot.cluster.is_empty() {
            writeln!(
                out,
                "# This ProxySQL is in a cluster, which spreads a reader hostgroup's SHUNNED as\n\
                 # ONLINE: put an unused hostgroup here instead, and point your rules to it."
            )?;
        }
        writeln!(
            out,
            "# [[proxysql.tier]]\n# hostgroup = {reader}\n# max_staleness = \"500ms\""
        )?;
    }
    Ok(())
}

fn shown_address(address: &Address) -> String {
    if address.host.contains(':') {
        format!("[{}]:{}", address.host, address.port)
    } else {
        address.to_string()
    }
}

/// A string of TOML, on one line, also where it stands in a comment.
fn quoted(text: &str) -> String {
    // JSON's escapes are TOML's, but for DEL, which JSON leaves as it is.
    let json = serde_json::Value::from(text).to_string();
    json.replace('\u{7f}', "\\u007f")
}
