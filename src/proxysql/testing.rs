//! ProxySQL's tables as text, and a model of what it does with statements.
//!
//! One row a line: hostgroup and server, then memory, runtime and what is
//! wanted. `10>20` alone on a line is a pair of `mysql_replication_hostgroups`.
//!
//! ```text
//! 10>20
//! 10 db1 | ONLINE        | =       |
//! 20 db2 | ONLINE w5 #hi | SHUNNED | off
//! 21 db2 |               |         | on w7 lag60 always
//! ```

use std::collections::BTreeMap;

use super::rows::{Address, Gating, Key, Monitor, Placement, Row, Rows, Snapshot, Status};
use super::version::Version;
use super::want::{Create, Want};

pub(crate) fn address(name: &str) -> Address {
    Address {
        host: name.to_owned(),
        port: 3306,
    }
}

pub(crate) fn key(hostgroup: u32, name: &str) -> Key {
    Key {
        hostgroup,
        address: address(name),
    }
}

pub(crate) fn empty() -> Snapshot {
    Snapshot {
        version: Version::parse("2.7.1").expect("a version"),
        uptime_s: 100,
        loads: 1,
        checksum: String::new(),
        memory: Rows::new(),
        runtime: Rows::new(),
        placements: Vec::new(),
        gating: Gating::default(),
        cluster: Vec::new(),
    }
}

/// Reads a table.
pub(crate) fn table(text: &str) -> (Snapshot, Vec<Want>) {
    let (mut snapshot, mut wants) = (empty(), Vec::new());
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some((writer, reader)) = line.split_once('>') {
            snapshot.placements.push(Placement {
                monitor: Monitor::ReadOnly,
                writer: number(writer),
                reader: number(reader),
                others: Vec::new(),
            });
            continue;
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [at, memory, runtime, want] = cells[..] else {
            panic!("four cells: {line}");
        };
        let (hostgroup, server) = at.split_once(' ').expect("hostgroup and server");
        let key = key(number(hostgroup), server);
        let memory = row(memory);
        let runtime = if runtime == "=" {
            memory.clone()
        } else {
            row(runtime)
        };
        snapshot.memory.extend(memory.map(|row| (key.clone(), row)));
        snapshot
            .runtime
            .extend(runtime.map(|row| (key.clone(), row)));
        wants.extend(self::want(key, want));
    }
    (snapshot, wants)
}

fn number(text: &str) -> u32 {
    text.trim().parse().expect("a number")
}

fn row(text: &str) -> Option<Row> {
    let mut words = text.split_whitespace();
    let mut row = Row {
        status: Status::parse(words.next()?).expect("a status"),
        ..Row::default()
    };
    for word in words {
        if let Some(comment) = word.strip_prefix('#') {
            row.comment = comment.to_owned();
        } else if let Some(lag) = word.strip_prefix("lag") {
            row.max_replication_lag = number(lag);
        } else if let Some(max) = word.strip_prefix("max") {
            row.max_connections = number(max);
        } else {
            row.weight = number(word.strip_prefix('w').expect("a known column"));
        }
    }
    Some(row)
}

fn want(key: Key, text: &str) -> Option<Want> {
    let mut words = text.split_whitespace();
    let on = words.next()? == "on";
    let mut want = Want {
        key,
        on,
        weight: None,
        lag_if_none: 0,
        create: if on { Create::Unplaced } else { Create::Never },
    };
    for word in words {
        if word == "always" {
            want.create = Create::Always;
        } else if let Some(lag) = word.strip_prefix("lag") {
            want.lag_if_none = number(lag);
        } else {
            want.weight = Some(number(word.strip_prefix('w').expect("a known word")));
        }
    }
    Some(want)
}

/// One statement carried out on `mysql_servers`. It knows the three forms that
/// a plan has, and refuses any other.
pub(crate) fn execute(memory: &mut Rows, statement: &str) {
    let tokens = tokens(statement);
    let words: Vec<&str> = tokens.iter().map(String::as_str).collect();
    match words[..] {
        ["REPLACE", "INTO", "mysql_servers", ref rest @ ..] => {
            let middle = rest.iter().position(|word| *word == "VALUES");
            let (names, values) = rest.split_at(middle.expect("VALUES"));
            let columns = names.iter().zip(&values[1..]);
            let columns: BTreeMap<&str, &str> = columns.map(|(n, v)| (*n, *v)).collect();
            let mut row = Row::default();
            columns
                .iter()
                .for_each(|(name, value)| set(&mut row, name, value));
            memory.insert(key_of(&columns), row);
        }
        ["UPDATE", "mysql_servers", "SET", ref rest @ ..] => {
            let middle = rest.iter().position(|word| *word == "WHERE");
            let (columns, only) = rest.split_at(middle.expect("WHERE"));
            let row = memory.get_mut(&key_of(&pairs(only)));
            let row = row.expect("only rows that are there are updated");
            columns
                .chunks(2)
                .for_each(|pair| set(row, pair[0], pair[1]));
        }
        ["DELETE", "FROM", "mysql_servers", ref only @ ..] => {
            memory.remove(&key_of(&pairs(only))).expect("it was there");
        }
        _ => panic!("an unknown statement: {statement}"),
    }
}

/// Names and values of `WHERE a=1 AND b='x'`.
fn pairs<'a>(words: &[&'a str]) -> BTreeMap<&'a str, &'a str> {
    words.chunks(3).map(|word| (word[1], word[2])).collect()
}

fn key_of(columns: &BTreeMap<&str, &str>) -> Key {
    Key {
        hostgroup: number(columns["hostgroup_id"]),
        address: Address {
            host: text(columns["hostname"]),
            port: columns["port"].parse().expect("a port"),
        },
    }
}

fn set(row: &mut Row, name: &str, value: &str) {
    match name {
        "hostgroup_id" | "hostname" | "port" => {}
        "gtid_port" => row.gtid_port = value.parse().expect("a port"),
        "status" => row.status = Status::parse(&text(value)).expect("a status"),
        "weight" => row.weight = number(value),
        "compression" => row.compression = number(value),
        "max_connections" => row.max_connections = number(value),
        "max_replication_lag" => row.max_replication_lag = number(value),
        "use_ssl" => row.use_ssl = number(value),
        "max_latency_ms" => row.max_latency_ms = number(value),
        "comment" => row.comment = text(value),
        _ => panic!("an unknown column: {name}"),
    }
}

/// The words and literals of a statement; `( ) , =` only separate.
fn tokens(statement: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut chars = statement.chars().peekable();
    while let Some(first) = chars.next() {
        if " (),=".contains(first) {
            continue;
        }
        let mut token = String::from(first);
        if first == '\'' {
            loop {
                let next = chars.next().expect("a literal ends");
                token.push(next);
                if next == '\'' {
                    if chars.peek() != Some(&'\'') {
                        break;
                    }
                    token.extend(chars.next());
                }
            }
        } else {
            while let Some(next) = chars.next_if(|next| !" (),=".contains(*next)) {
                token.push(next);
            }
        }
        tokens.push(token);
    }
    tokens
}

/// What SQLite reads from a literal.
fn text(literal: &str) -> String {
    let inner = literal
        .strip_prefix('\'')
        .and_then(|l| l.strip_suffix('\''));
    let inner = inner.unwrap_or_else(|| panic!("a literal: {literal}"));
    assert!(!inner.replace("''", "").contains('\''), "{literal}");
    inner.replace("''", "'")
}

/// `LOAD MYSQL SERVERS TO RUNTIME`: memory is in force, as a whole; what is not
/// in it goes.
pub(crate) fn load(snapshot: &mut Snapshot) {
    snapshot.runtime = snapshot.memory.clone();
    snapshot.loads += 1;
}

/// The rows in force as somebody set them: what ProxySQL itself shunned counts
/// as ONLINE, and what is only shown until its connections are gone as gone.
pub(crate) fn set_in_force(snapshot: &Snapshot) -> Rows {
    let mut rows = Rows::new();
    for (key, row) in &snapshot.runtime {
        let said = snapshot.memory.get(key).map(|row| row.status);
        let mut row = row.clone();
        match (row.status, said) {
            (Status::Shunned, Some(Status::Shunned)) => {}
            (Status::Shunned, _) => row.status = Status::Online,
            (Status::OfflineHard, Some(Status::OfflineHard)) => {}
            (Status::OfflineHard, _) => continue,
            _ => {}
        }
        rows.insert(key.clone(), row);
    }
    rows
}
