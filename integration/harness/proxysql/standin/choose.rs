//! Which backend a query gets: the hostgroup by hint, rule or user, the server
//! by weight among those that may take it, and the wait until there is one.

use std::{collections::HashSet, sync::LazyLock, time::Duration};

use rand::seq::IndexedRandom as _;
use regex::Regex;

use super::{
    backend::{Backend, BackendError},
    hosts::{Counts, Key, Status},
    rules::{Hint, digest},
    session::Session,
    wire::SqlError,
};

/// How long a waiting query rests between two looks.
const REST: Duration = Duration::from_millis(2);
/// The same when every server refused.
const REST_REFUSED: Duration = Duration::from_millis(50);

/// What keeps a backend with its session: ProxySQL switches multiplexing off.
static PINS: LazyLock<Regex> = LazyLock::new(|| {
    let pins = r"(?i)@|\bGET_LOCK\b|\bTEMPORARY\b|^LOCK TABLE|SQL_CALC_FOUND_ROWS";
    Regex::new(pins).expect("a pattern of our own")
});

/// Where one query must go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) hostgroup: u32,
    /// The transaction that the server's feed must have announced.
    pub(super) gate: Option<(String, i64)>,
}

impl Plan {
    pub(super) fn of(session: &Session, sql: &str) -> Self {
        let mut held = session.held.values();
        if session.user.transaction_persistent
            && let Some(backend) = held.find(|backend| backend.in_transaction)
        {
            return Self {
                hostgroup: backend.key.0,
                gate: None,
            };
        }
        let state = session.shared.state.lock();
        let hint = match state.is_on("mysql-query_digests") {
            true => Hint::of(sql),
            false => Hint::default(),
        };
        let verdict = state.rules.judge(&session.user.name, sql);
        let chosen = hint.hostgroup.or(verdict.hostgroup);
        let last = verdict.gtid_from.and_then(|from| session.gtids.get(&from));
        Self {
            hostgroup: chosen.unwrap_or(session.user.hostgroup),
            gate: hint.min_gtid.or_else(|| last.cloned()),
        }
    }
}

impl Session {
    /// A backend for the query, and whether it is a new one.
    pub(super) async fn acquire(&mut self, plan: &Plan) -> Result<(Backend, bool), SqlError> {
        if let Some(backend) = self.held.remove(&plan.hostgroup) {
            self.count(&backend.key, |counts| counts.queries += 1);
            return Ok((backend, false));
        }
        let limit = self.shared.millis("mysql-connect_timeout_server_max");
        let found = tokio::time::timeout(limit, self.wait_for(plan)).await;
        let Ok(found) = found else {
            let text = format!(
                "Max connect timeout reached while reaching hostgroup {} after {}ms",
                plan.hostgroup,
                limit.as_millis()
            );
            return Err(SqlError::new(9001, "HY000", text));
        };
        let (backend, is_new) = found?;
        self.count(&backend.key, |counts| {
            counts.queries += 1;
            counts.gated += i64::from(plan.gate.is_some());
            counts.used += 1;
            counts.used_max = counts.used_max.max(counts.used);
            match is_new {
                true => counts.connected += 1,
                false => counts.free -= 1,
            }
        });
        Ok((backend, is_new))
    }

    async fn wait_for(&mut self, plan: &Plan) -> Result<(Backend, bool), SqlError> {
        let mut refused = HashSet::new();
        loop {
            let Some(key) = self.pick(plan, &refused) else {
                let rest = if refused.is_empty() {
                    REST
                } else {
                    REST_REFUSED
                };
                refused.clear();
                tokio::time::sleep(rest).await;
                continue;
            };
            if let Some(backend) = self.idle.remove(&key) {
                return Ok((backend, false));
            }
            match self.connect(key.clone()).await {
                Ok(backend) => return Ok((backend, true)),
                Err(BackendError::Refused(error)) => return Err(error),
                Err(BackendError::Gone | BackendError::Client(_)) => {
                    self.count(&key, |counts| counts.failed += 1);
                    refused.insert(key);
                }
            }
        }
    }

    fn pick(&self, plan: &Plan, refused: &HashSet<Key>) -> Option<Key> {
        let state = self.shared.state.lock();
        let candidates: Vec<(&Key, u32)> = state
            .hosts
            .candidates(plan.hostgroup)
            .filter(|(key, _)| !refused.contains(*key))
            .filter(|((_, name, port), _)| {
                let gate = plan.gate.as_ref();
                gate.is_none_or(|gtid| state.feeds.contains(&(name.clone(), *port), gtid))
            })
            .map(|(key, host)| (key, host.weight))
            .collect();
        let chosen = candidates.choose_weighted(&mut rand::rng(), |(_, weight)| *weight);
        chosen.ok().map(|(key, _)| (*key).clone())
    }

    async fn connect(&self, key: Key) -> Result<Backend, BackendError> {
        let login = (self.user.name.as_str(), self.user.password.as_str());
        let mut backend = Backend::connect(key, login, self.client.capabilities).await?;
        let tracking = {
            let state = self.shared.state.lock();
            state
                .variable("mysql-default_session_track_gtids")
                .to_owned()
        };
        if tracking == "OWN_GTID" {
            backend
                .run("SET SESSION session_track_gtids = OWN_GTID")
                .await?;
        }
        Ok(backend)
    }

    /// Keeps the backend for the next query of its hostgroup, or of any.
    pub(super) fn give_back(&mut self, mut backend: Backend, sql: &str) {
        backend.pinned |= PINS.is_match(&digest(sql));
        let key = backend.key.clone();
        if backend.pinned || backend.in_transaction {
            self.held.insert(key.0, backend);
            return;
        }
        self.count(&key, |counts| {
            counts.used -= 1;
            counts.free += 1;
        });
        // Of two to one server, which only hints in transactions can make, one is enough.
        if let Some(other) = self.idle.insert(key, backend) {
            self.drop_backend(&other, false);
        }
    }

    /// Takes a backend that is about to be dropped out of the counts.
    pub(super) fn drop_backend(&self, backend: &Backend, was_used: bool) {
        self.count(&backend.key, |counts| match was_used {
            true => counts.used -= 1,
            false => counts.free -= 1,
        });
    }

    fn count(&self, key: &Key, change: impl FnOnce(&mut Counts)) {
        let mut state = self.shared.state.lock();
        if let Some(host) = state.hosts.0.get_mut(key) {
            change(&mut host.counts);
            if host.status == Status::OfflineHard {
                state.hosts.purge();
            }
        }
    }
}
