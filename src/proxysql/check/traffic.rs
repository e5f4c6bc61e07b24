//! Do hints arrive, and do answers come from the servers that Causeway chose?

use super::{Context, Notes, RULES, USERS, VARIABLES, list};
use crate::proxysql::statement::quoted;
use crate::proxysql::survey::{Rule, Survey};

pub(super) fn look(survey: &Survey, context: &Context<'_>, notes: &mut Notes<'_>) {
    cached(survey, notes);
    if context.settings.managed.hints.is_none() {
        return;
    }
    comments(survey, notes);
    passed_through(survey, notes);
    leaving_transactions(survey, notes);
    anchored(survey, notes);
}

fn cached(survey: &Survey, notes: &mut Notes<'_>) {
    let rules = survey.rules.iter();
    for (rule, ttl) in rules.filter_map(|rule| Some((rule, rule.cache_ttl_ms?))) {
        notes.warn(
            format!(
                "rule {} answers from ProxySQL's cache for {ttl} ms: such reads miss later \
                 writes, whatever server was chosen",
                rule.id
            ),
            format!(
                "where reads must be fresh: UPDATE mysql_query_rules SET cache_ttl=NULL WHERE \
                 rule_id={}; {RULES}",
                rule.id
            ),
        );
    }
}

fn comments(survey: &Survey, notes: &mut Notes<'_>) {
    if survey.variable("mysql-query_digests") == Some("false") {
        notes.error(
            "mysql-query_digests is false: hints in comments are ignored",
            format!("SET mysql-query_digests='true'; {VARIABLES}"),
        );
    }
    // Only newer versions have it: 0 is off, 1 before the rules, 2 after, 3 both.
    let name = "mysql-query_processor_first_comment_parsing";
    let (mode, effect) = match survey.number(name) {
        Some(0) => (0, "hints in comments are ignored"),
        Some(1) => (1, "rules with a destination override hints"),
        _ => return,
    };
    notes.error(
        format!("{name} is {mode}: {effect}"),
        format!("SET {name}=2; {VARIABLES}"),
    );
}

fn passed_through(survey: &Survey, notes: &mut Notes<'_>) {
    let users: Vec<String> = survey
        .users
        .iter()
        .filter(|user| user.fast_forward)
        .map(|user| quoted(&user.name))
        .collect();
    if !users.is_empty() {
        let users = list(users);
        notes.warn(
            format!("fast_forward is 1 for {users}: hints and rules do not count for them"),
            format!("UPDATE mysql_users SET fast_forward=0 WHERE username IN ({users}); {USERS}"),
        );
    }
}

fn leaving_transactions(survey: &Survey, notes: &mut Notes<'_>) {
    let users: Vec<String> = survey
        .users
        .iter()
        .filter(|user| !user.transaction_persistent && !user.fast_forward)
        .map(|user| quoted(&user.name))
        .collect();
    if !users.is_empty() {
        let users = list(users);
        notes.warn(
            format!(
                "transaction_persistent is 0 for {users}: a hint inside a transaction leaves it, \
                 and the read does not see what the transaction wrote"
            ),
            format!(
                "UPDATE mysql_users SET transaction_persistent=1 WHERE username IN ({users}); \
                 {USERS}"
            ),
        );
    }
}

/// A pattern tied to the query's start sees the comment first; a digest does not
/// contain comments.
fn anchored(survey: &Survey, notes: &mut Notes<'_>) {
    let blind = |rule: &&Rule| {
        let pattern = rule.pattern.as_deref().unwrap_or_default();
        pattern.starts_with('^') && !pattern.contains("/\\*") && !pattern.contains("/*")
    };
    for rule in survey.rules.iter().filter(blind) {
        let pattern = rule.pattern.as_deref().unwrap_or_default();
        let id = rule.id;
        let mend = if rule.rewrites {
            format!("let match_pattern of rule {id} allow a leading comment")
        } else {
            format!(
                "UPDATE mysql_query_rules SET match_digest=match_pattern, match_pattern=NULL \
                 WHERE rule_id={id}; {RULES} (digests have ? for values)"
            )
        };
        notes.warn(
            format!(
                "rule {id} matches {pattern:?} against the whole text, where a hint's comment \
                 comes first: it is not applied to hinted queries"
            ),
            mend,
        );
    }
}
