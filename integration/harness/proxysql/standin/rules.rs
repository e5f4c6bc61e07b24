//! Where a query goes by its text: query rules, and hints in its first comment.

use std::collections::HashMap;

use regex::{Regex, RegexBuilder};

use super::{feed_set::leading_number, store::Store, wire::SqlError};

/// As much of a comment as is searched for hints.
const HINT_BYTES_MAX: usize = 1024;

/// An active row of `mysql_users`.
#[derive(Clone, Debug)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) password: String,
    pub(super) hostgroup: u32,
    pub(super) schema: Option<String>,
    pub(super) transaction_persistent: bool,
}

impl User {
    pub(super) fn load(store: &Store) -> rusqlite::Result<Vec<Self>> {
        let sql = "SELECT username, IFNULL(password, ''), default_hostgroup, default_schema,
                   transaction_persistent FROM runtime_mysql_users WHERE frontend = 1";
        store.rows(sql, |row| {
            Ok(Self {
                name: row.get(0)?,
                password: row.get(1)?,
                hostgroup: row.get(2)?,
                schema: row.get(3)?,
                transaction_persistent: row.get(4)?,
            })
        })
    }
}

/// The active query rules, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules(Vec<Rule>);

#[derive(Clone, Debug)]
struct Rule {
    flag_in: i64,
    flag_out: Option<i64>,
    user: Option<String>,
    digest: Option<Regex>,
    pattern: Option<Regex>,
    negate: bool,
    hostgroup: Option<u32>,
    gtid_from: Option<u32>,
    apply: bool,
}

/// What the rules say of one query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) hostgroup: Option<u32>,
    pub(super) gtid_from: Option<u32>,
}

impl Rules {
    pub(super) fn load(store: &Store) -> Result<Self, SqlError> {
        let sql = "SELECT flagIN, flagOUT, username, match_digest, match_pattern,
                   negate_match_pattern, IFNULL(re_modifiers, ''), destination_hostgroup,
                   gtid_from_hostgroup, apply FROM runtime_mysql_query_rules ORDER BY rule_id";
        let rules = store.rows(sql, |row| {
            let modifiers: String = row.get(6)?;
            let regex = |text: Option<String>| text.and_then(|text| compile(&text, &modifiers));
            Ok(Rule {
                flag_in: row.get(0)?,
                flag_out: row.get(1)?,
                user: row.get(2)?,
                digest: regex(row.get(3)?),
                pattern: regex(row.get(4)?),
                negate: row.get(5)?,
                hostgroup: row.get(7)?,
                gtid_from: row.get(8)?,
                apply: row.get(9)?,
            })
        })?;
        Ok(Self(rules))
    }

    /// Goes through the rules as ProxySQL does.
    pub(super) fn judge(&self, user: &str, sql: &str) -> Verdict {
        let (mut verdict, mut flag, digest) = (Verdict::default(), 0, digest(sql));
        for rule in &self.0 {
            if rule.flag_in != flag || !rule.matches(user, sql, &digest) {
                continue;
            }
            verdict.hostgroup = rule.hostgroup.or(verdict.hostgroup);
            verdict.gtid_from = rule.gtid_from.or(verdict.gtid_from);
            flag = rule.flag_out.unwrap_or(flag);
            if rule.apply {
                break;
            }
        }
        verdict
    }
}

impl Rule {
    fn matches(&self, user: &str, sql: &str, digest: &str) -> bool {
        let found = |regex: &Option<Regex>, text: &str| {
            regex
                .as_ref()
                .is_none_or(|regex| regex.is_match(text) != self.negate)
        };
        self.user.as_deref().is_none_or(|wanted| wanted == user)
            && found(&self.digest, digest)
            && found(&self.pattern, sql)
    }
}

// A pattern that is none never matches in ProxySQL either.
fn compile(pattern: &str, modifiers: &str) -> Option<Regex> {
    let caseless = modifiers.to_uppercase().contains("CASELESS");
    let regex = RegexBuilder::new(pattern)
        .case_insensitive(caseless)
        .build();
    regex.or_else(|_| Regex::new("[^\\s\\S]")).ok()
}

/// What the first comment of a query asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hint {
    pub(super) hostgroup: Option<u32>,
    /// A UUID without dashes, and a number.
    pub(super) min_gtid: Option<(String, i64)>,
}

impl Hint {
    pub(super) fn of(sql: &str) -> Self {
        let mut values = HashMap::new();
        for part in first_comment(sql).unwrap_or_default().split(';') {
            if let Some((key, value)) = part.split_once('=') {
                values.insert(key.trim().to_lowercase(), value.trim());
            }
        }
        let hostgroup = values
            .get("hostgroup")
            .filter(|value| value.starts_with(|letter: char| letter.is_ascii_digit()));
        Self {
            hostgroup: hostgroup.and_then(|value| leading_number(value).try_into().ok()),
            min_gtid: values.get("min_gtid").and_then(|value| gtid(value)),
        }
    }
}

/// A GTID as the gate compares it. A value that is none, or of number 0, is no gate.
pub(super) fn gtid(text: &str) -> Option<(String, i64)> {
    let (uuid, number) = text.split_once(':')?;
    let number = leading_number(number);
    (number > 0).then(|| (uuid.replace('-', ""), number))
}

/// One piece of a statement.
#[derive(Debug)]
enum Piece<'a> {
    Comment(&'a str),
    /// A comment to the end of its line.
    Line,
    Quoted(&'a str),
    Other(&'a str),
}

/// The content of the first `/* */` comment, as far as it is looked at.
fn first_comment(sql: &str) -> Option<&str> {
    let comment = pieces(sql).find_map(|piece| match piece {
        Piece::Comment(text) => Some(text),
        _ => None,
    })?;
    let end = (0..=HINT_BYTES_MAX.min(comment.len())).rfind(|at| comment.is_char_boundary(*at));
    Some(&comment[..end.unwrap_or_default()])
}

/// The statement as `match_digest` sees it: without comments, `?` for values.
pub(super) fn digest(sql: &str) -> String {
    let mut text = String::new();
    for piece in pieces(sql) {
        match piece {
            Piece::Comment(_) | Piece::Line => text.push(' '),
            Piece::Quoted(quoted) if quoted.starts_with('`') => text.push_str(quoted),
            Piece::Quoted(_) => text.push('?'),
            Piece::Other(other) => text.push_str(other),
        }
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    without_numbers(&words.join(" "))
}

fn without_numbers(text: &str) -> String {
    let (mut result, mut in_word, mut in_number) = (String::new(), false, false);
    for letter in text.chars() {
        let digit = letter.is_ascii_digit();
        in_number = in_number && (digit || letter == '.') || digit && !in_word;
        if !in_number {
            result.push(letter);
        } else if !result.ends_with('?') {
            result.push('?');
        }
        in_word = !in_number && (letter.is_alphanumeric() || letter == '_' || letter == '@');
    }
    result
}

fn pieces(sql: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = sql;
    std::iter::from_fn(move || {
        let (piece, length) = piece(rest)?;
        rest = &rest[length..];
        Some(piece)
    })
}

fn piece(text: &str) -> Option<(Piece<'_>, usize)> {
    let first = text.chars().next()?;
    if let Some(inside) = text
        .strip_prefix("/*")
        .filter(|rest| !rest.starts_with('!'))
    {
        let end = inside.find("*/").unwrap_or(inside.len());
        return Some((Piece::Comment(&inside[..end]), (end + 4).min(text.len())));
    }
    if first == '#' || text.starts_with("-- ") {
        return Some((Piece::Line, text.find('\n').unwrap_or(text.len())));
    }
    if let '\'' | '"' | '`' = first {
        let length = quoted_bytes(text, first);
        return Some((Piece::Quoted(&text[..length]), length));
    }
    let stop = |at: &(usize, char)| {
        let here = &text[at.0..];
        matches!(at.1, '\'' | '"' | '`' | '#') || here.starts_with("/*") || here.starts_with("-- ")
    };
    let length = text.char_indices().skip(1).find(stop);
    let length = length.map_or(text.len(), |(at, _)| at);
    Some((Piece::Other(&text[..length]), length))
}

fn quoted_bytes(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        if letter == quote && !escaped {
            return at + letter.len_utf8();
        }
        escaped = letter == '\\' && !escaped;
    }
    text.len()
}
