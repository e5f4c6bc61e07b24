//! GTID sets against a real server, which is the judge of both the grammar and
//! the printed form.
//!
//! Seeded, so that a failure names the case that repeats it. Three kinds of
//! check, many expressions to a query:
//!
//! - texts made of the grammar's pieces, valid or broken: the server's
//!   `GTID_SUBTRACT(x, '')` must fail with 1772 exactly when the parser fails,
//!   and otherwise print byte for byte what `{:#}` prints;
//! - pairs of valid sets: `GTID_SUBSET`, `GTID_SUBTRACT` and, from two of them,
//!   the intersection;
//! - `@@GLOBAL.gtid_owned`, by owning some.
//!
//! The grammar is that of MySQL 9.7's functions. Left out because the server's
//! answer is an accident: bytes above 127 inside a tag, which it looks up out
//! of bounds.

use anyhow::{Context, ensure};
use causeway::gtid::{Gtid, GtidSet, Limits, parse_owned};
use mysql_async::prelude::Queryable;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// Expressions in one query: large enough to amortise a round trip, small
/// enough that a failing batch is still quick to narrow down.
const BATCH: usize = 200;

/// ER_MALFORMED_GTID_SET_SPECIFICATION.
const MALFORMED: u16 = 1772;

const UUIDS: [&str; 4] = [
    "3e11fa47-71ca-11e1-9e33-c80aa9429562",
    "3e11fa47-71ca-11e1-9e33-c80aa9429563",
    "00000000-0000-0000-0000-000000000000",
    "ffffffff-71ca-11e1-9e33-c80aa9429562",
];
const TAGS: [&str; 6] = [
    "a",
    "aa",
    "b_",
    "_1",
    "tag",
    "abcdefghijklmnopqrstuvwxyz_01234",
];
/// What a broken text is broken with.
const NOISE: [&str; 26] = [
    ":",
    ",",
    "-",
    " ",
    "\n",
    "\t",
    "{",
    "}",
    "+",
    "#",
    ";",
    "0",
    "00",
    "0x1",
    "9",
    "a",
    "G",
    "_",
    "é",
    "\0",
    "\u{1}",
    "\u{7f}",
    "9223372036854775806",
    "9223372036854775807",
    "18446744073709551616",
    "abcdefghijklmnopqrstuvwxyz_012345",
];

/// Compares `cases` generated texts and as many pairs of sets with the server.
///
/// Needs MySQL 9.7 or later with `gtid_mode=ON` and a user that may set
/// `gtid_next`. Leaves nothing behind: no transaction is committed.
///
/// # Errors
/// The first disagreement, with the text that shows it; or a failing query.
pub(crate) async fn check_against_server(
    conn: &mut mysql_async::Conn,
    cases: usize,
    seed: u64,
) -> anyhow::Result<()> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut valid = Vec::new();
    let mut broken = Vec::new();
    for _ in 0..cases {
        let text = set_text(&mut rng);
        broken.push(break_text(&mut rng, &text));
        valid.push(text);
    }
    for texts in valid.chunks(BATCH) {
        check_texts(conn, texts).await?;
    }
    for texts in broken.chunks(BATCH) {
        check_texts(conn, texts).await?;
    }
    for texts in valid.chunks(BATCH) {
        check_pairs(conn, texts).await?;
    }
    check_owned(conn).await
}

/// Acceptance and normal form of each text.
async fn check_texts(conn: &mut mysql_async::Conn, texts: &[String]) -> anyhow::Result<()> {
    let mut accepted = Vec::new();
    for text in texts {
        match text.parse::<GtidSet>() {
            Ok(set) => accepted.push((text, set)),
            Err(error) => check_refused(conn, text, &error.to_string()).await?,
        }
    }
    if accepted.is_empty() {
        return Ok(());
    }
    let asked = accepted
        .iter()
        .map(|(text, _)| format!("GTID_SUBTRACT({},'')", quoted(text)));
    let printed = match ask(conn, asked).await {
        Ok(printed) => printed,
        Err(error) => return narrow_down(conn, texts, error).await,
    };
    for ((text, set), theirs) in accepted.iter().zip(printed) {
        let ours = format!("{set:#}");
        ensure!(
            ours == theirs,
            "{text:?} prints {ours:?}, the server says {theirs:?}"
        );
    }
    Ok(())
}

/// A batch of texts that the parser accepts failed: which of them was it?
async fn narrow_down(
    conn: &mut mysql_async::Conn,
    texts: &[String],
    error: mysql_async::Error,
) -> anyhow::Result<()> {
    for text in texts.iter().filter(|text| text.parse::<GtidSet>().is_ok()) {
        let asked = format!("GTID_SUBTRACT({},'')", quoted(text));
        let alone = ask(conn, [asked]).await;
        alone.with_context(|| format!("the server refuses {text:?}"))?;
    }
    Err(error).context("a batch failed, but none of its texts alone")
}

async fn check_refused(
    conn: &mut mysql_async::Conn,
    text: &str,
    reason: &str,
) -> anyhow::Result<()> {
    if is_left_out(text) {
        return Ok(());
    }
    let answer = ask(conn, [format!("GTID_SUBTRACT({},'')", quoted(text))]).await;
    match answer {
        Err(mysql_async::Error::Server(error)) if error.code == MALFORMED => Ok(()),
        Err(error) => Err(error).with_context(|| format!("not a parse error: {text:?}")),
        Ok(printed) => anyhow::bail!("{text:?} refused ({reason}), the server reads {printed:?}"),
    }
}

/// A byte above 127 directly after a tag's character; see the top of the file.
fn is_left_out(text: &str) -> bool {
    let is_tag_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut pairs = text.as_bytes().windows(2);
    pairs.any(|pair| !pair[1].is_ascii() && (is_tag_byte(pair[0]) || pair[0] == b':'))
}

/// Relations and differences of neighbours in the list.
async fn check_pairs(conn: &mut mysql_async::Conn, texts: &[String]) -> anyhow::Result<()> {
    let pairs: Vec<_> = texts.windows(2).map(|pair| (&pair[0], &pair[1])).collect();
    if pairs.is_empty() {
        return Ok(());
    }
    let asked = pairs.iter().flat_map(|(a, b)| {
        let (a, b) = (quoted(a), quoted(b));
        [
            format!("GTID_SUBSET({a},{b})"),
            format!("GTID_SUBSET(GTID_SUBTRACT({a},{b}),{a})"),
            format!("GTID_SUBTRACT({a},{b})"),
            format!("GTID_SUBTRACT({a},GTID_SUBTRACT({a},{b}))"),
            format!("GTID_SUBTRACT(CONCAT({a},',',{b}),'')"),
        ]
    });
    let answers = ask(conn, asked).await?;
    for ((a, b), theirs) in pairs.iter().zip(answers.chunks(5)) {
        let (left, right): (GtidSet, GtidSet) = (a.parse()?, b.parse()?);
        let difference = left.subtract(&right);
        let ours = [
            u8::from(right.contains_set(&left)).to_string(),
            u8::from(left.contains_set(&difference)).to_string(),
            format!("{difference:#}"),
            format!("{:#}", left.intersect(&right)),
            format!("{:#}", left.union(&right)),
        ];
        ensure!(
            ours == theirs,
            "{a:?} and {b:?}: {ours:?}, the server says {theirs:?}"
        );
    }
    Ok(())
}

/// What this connection owns must be in what `parse_owned` reads.
async fn check_owned(conn: &mut mysql_async::Conn) -> anyhow::Result<()> {
    for text in [format!("{}:7", UUIDS[0]), format!("{}:tag:9", UUIDS[3])] {
        conn.query_drop(format!("SET gtid_next='{text}'")).await?;
        let owned: Option<String> = conn.query_first("SELECT @@GLOBAL.gtid_owned").await?;
        conn.query_drop("ROLLBACK").await?;
        conn.query_drop("SET gtid_next='AUTOMATIC'").await?;
        let owned = owned.context("gtid_owned is NULL")?;
        let gtid: Gtid = text.parse()?;
        ensure!(
            parse_owned(&owned)?.contains(&gtid),
            "{text} is not in {owned:?}"
        );
    }
    Ok(())
}

/// One query of many expressions, each a column; every answer as text.
async fn ask(
    conn: &mut mysql_async::Conn,
    expressions: impl IntoIterator<Item = String>,
) -> mysql_async::Result<Vec<String>> {
    let columns: Vec<_> = expressions
        .into_iter()
        .map(|expression| format!("CAST({expression} AS CHAR) AS a"))
        .collect();
    let query = format!("SELECT {}", columns.join(","));
    let row: Option<mysql_async::Row> = conn.query_first(query).await?;
    let values = row.map(mysql_async::Row::unwrap).unwrap_or_default();
    Ok(values.into_iter().map(mysql_async::from_value).collect())
}

/// A string literal that no quoting rule or SQL mode can change.
fn quoted(text: &str) -> String {
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("_utf8mb4 x'{hex}'")
}

/// A valid text in free spelling: any case, white space, order and overlap.
fn set_text(rng: &mut StdRng) -> String {
    let groups: Vec<_> = (0..rng.random_range(0..5))
        .map(|_| group_text(rng))
        .collect();
    let comma = [",", ",\n", " , ", ",,", ", ,"].choose(rng).unwrap_or(&",");
    groups.join(comma)
}

fn group_text(rng: &mut StdRng) -> String {
    let uuid = UUIDS.choose(rng).copied().unwrap_or_default();
    let mut text = match rng.random_range(0..6) {
        0 => uuid.to_uppercase(),
        1 => uuid.replace('-', ""),
        2 => format!("{{{uuid}}}"),
        _ => uuid.to_owned(),
    };
    for _ in 0..rng.random_range(0..7) {
        text += [":", ":", ":", " :", ": ", "\n:\t"]
            .choose(rng)
            .unwrap_or(&":");
        text += &match rng.random_range(0..10) {
            0..3 => TAGS.choose(rng).copied().unwrap_or_default().to_owned(),
            3 => TAGS.choose(rng).copied().unwrap_or_default().to_uppercase(),
            4 => rng.random_range(1..40).to_string(),
            5 => format!("{:03}", rng.random_range(1..40)),
            6 => format!("{} - {}", Limits::SERVER.bytes_max, causeway::gtid::GNO_MAX),
            _ => format!("{}-{}", rng.random_range(1..40), rng.random_range(0..60)),
        };
    }
    text
}

/// Puts noise into a text, or takes something out of it.
fn break_text(rng: &mut StdRng, text: &str) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..rng.random_range(1..4) {
        let at = rng.random_range(0..=chars.len());
        let until = (at + rng.random_range(0..3)).min(chars.len());
        let noise = NOISE.choose(rng).copied().unwrap_or_default();
        let noise = if rng.random_bool(0.7) { noise } else { "" };
        chars.splice(at..until, noise.chars());
    }
    chars.into_iter().collect()
}
