//! Keeps the core pure: what it must not mention. (Test only.)

use std::fs;
use std::path::{Path, PathBuf};

const PURE: [&str; 22] = [
    "gtid",
    "fleet",
    "session",
    "route",
    "feed/lines.rs",
    "feed/session.rs",
    "requirement.rs",
    "moment.rs",
    "proxysql/tier.rs",
    "proxysql/want.rs",
    "proxysql/held.rs",
    "proxysql/pace.rs",
    "proxysql/plan.rs",
    "proxysql/follow.rs",
    "proxysql/rows.rs",
    "proxysql/by_hand.rs",
    "proxysql/statement.rs",
    "proxysql/version.rs",
    "proxysql/survey.rs",
    "proxysql/init.rs",
    "proxysql/init",
    "proxysql/check",
];

const FORBIDDEN: [&str; 18] = [
    "tokio",
    "async ",
    ".await",
    "mysql_async",
    "mysql_common",
    "mysql::",
    "crate::observe",
    "crate::api",
    "crate::router",
    "crate::config",
    "crate::cli",
    "crate::clock",
    "super::admin",
    "super::controller",
    "super::read::",
    "Instant::now",
    "SystemTime",
    "rand::",
];

/// The core's files, tests left out.
fn sources(at: &Path, found: &mut Vec<PathBuf>) {
    let test = [
        "tests",
        "tests.rs",
        "testing.rs",
        "simulation",
        "simulation.rs",
    ];
    if at
        .file_name()
        .is_some_and(|name| test.iter().any(|test| name == *test))
    {
        return;
    }
    if at.is_dir() {
        for entry in fs::read_dir(at).expect("a readable folder") {
            sources(&entry.expect("a readable entry").path(), found);
        }
    } else {
        found.push(at.to_owned());
    }
}

fn offences(text: &str) -> Vec<String> {
    let code = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    code.filter(|line| FORBIDDEN.iter().any(|word| line.contains(word)))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_core_does_no_io_reads_no_clock_and_knows_no_edge() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    for part in PURE {
        sources(&root.join(part), &mut files);
    }
    assert!(files.len() > 28, "the core has moved: {files:?}");
    for file in files {
        let text = fs::read_to_string(&file).expect("a readable file");
        let offences = offences(&text);
        assert!(offences.is_empty(), "{}: {offences:?}", file.display());
    }
}

#[test]
fn a_comment_may_name_what_code_may_not() {
    assert!(offences("/// no tokio here\nlet x = 1; // nor SystemTime").is_empty());
    assert_eq!(offences("use tokio::sync;").len(), 1);
}
