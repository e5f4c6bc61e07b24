//! The router: what an application talks to, in process or through the API.
//!
//! It carries out the steps that [`decide`](fn@crate::route::decide) asks for. All rules about
//! where a read may go are there, none here.
//!
//! # Example
//!
//! ```no_run
//! use causeway::config::Config;
//! use causeway::router::{Read, Router, Write};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let config = Config::load("causeway.toml".as_ref())?;
//! let router = Router::start(&config);
//!
//! // After a commit: the GTID from the OK packet, or none to have Causeway ask.
//! let token = router.wrote(&Write { session: Some("u42"), gtid: None }).await?;
//!
//! // Before a read: where may it go now?
//! let route = router.route(&Read { session: Some("u42"), ..Read::default() }).await?;
//! println!("read from {} ({})", route.info.address, route.decision.reason.name());
//! println!("a background job may carry {token} instead of the session");
//!
//! router.stop().await;
//! # Ok(())
//! # }
//! ```

mod stats;
mod steps;
mod sweep;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::Rng;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use stats::{Stats, WAIT_BUCKETS_US};

use crate::clock;
use crate::config::{Config, Routing};
use crate::fleet::{FleetView, ServerInfo, ServerIx};
use crate::gtid::GtidSet;
use crate::moment::Moment;
use crate::observe::{self, Hub};
use crate::proxysql::Controller;
use crate::requirement::Requirement;
use crate::route::{Ask, Candidate, Consistency, Decision, Failure, OnTimeout, Policy, explain};
use crate::session::{Kept, Sessions, State};

/// Beyond `max_wait`, questions to servers get this long at most.
const QUESTION_GRACE: Duration = Duration::from_millis(50);

/// A commit to remember.
#[derive(Clone, Debug, Default)]
pub struct Write<'a> {
    /// Whose it is; without one only a token is made.
    pub session: Option<&'a str>,
    /// The GTIDs of the commit (`session_track_gtids=OWN_GTID`); without them
    /// everything committed on the source before this call counts.
    pub gtid: Option<GtidSet>,
}

/// A read to route. What is `None` is taken from the configuration.
#[derive(Clone, Debug, Default)]
pub struct Read<'a> {
    /// Whose it is.
    pub session: Option<&'a str>,
    /// What the server must have executed besides.
    pub token: Option<GtidSet>,
    /// The promise.
    pub consistency: Option<Consistency>,
    /// A bound on staleness, beside the promise.
    pub max_staleness: Option<Duration>,
    /// How long to wait for a replica.
    pub max_wait: Option<Duration>,
    /// What follows a timeout.
    pub on_timeout: Option<OnTimeout>,
    /// The caller's zone.
    pub zone: Option<&'a str>,
    /// Tell how every server stood.
    pub explain: bool,
}

/// Where a read goes, with all there is to tell about it.
#[derive(Clone, Debug)]
pub struct Route {
    /// The decision.
    pub decision: Decision,
    /// The chosen server.
    pub info: Arc<ServerInfo>,
    /// The promise that was asked for, after defaults.
    pub consistency: Consistency,
    /// How long the request took inside Causeway when it had to wait or ask;
    /// zero when it was answered at once.
    pub waited: Duration,
    /// The session's and the token's writes, less what is lost: what to ask with
    /// from now on.
    pub token: Requirement,
    /// The hostgroup of ProxySQL that holds the server, when there is one in
    /// force on every instance.
    pub hostgroup: Option<u32>,
    /// How every server stood, when asked for.
    pub candidates: Option<Vec<(Arc<ServerInfo>, Candidate)>>,
}

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouterError {
    /// The request itself is wrong.
    #[error("{field}: {problem}")]
    Invalid {
        /// The field at fault.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// No server can keep the promise, or not in time.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The source did not tell what it has executed. A session that was named
    /// reads from the source until its time to live has passed.
    #[error("the source could not be asked what it has executed: {0}")]
    Fence(String),
}

/// Routes reads. Cheap to clone; the clones share everything.
#[derive(Clone, Debug)]
pub struct Router {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    hub: Arc<Hub>,
    sessions: Sessions,
    routing: Routing,
    stats: Stats,
    seeds: AtomicU64,
    query_timeout: Duration,
    proxysql: Option<Arc<Controller>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Router {
    /// Starts to observe the configured servers. Needs a tokio runtime. Reads
    /// are answered as soon as the source is known.
    pub fn start(config: &Config) -> Self {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let login = Arc::new(config.login.clone());
        let hub = observe::start(&config.servers, &login, &config.observe, &stop, &tasks);
        let proxysql = config.proxysql.clone().map(|settings| {
            Controller::start(settings, &config.servers, &hub, &login, &stop, &tasks)
        });
        let router = Self::made_of(hub, config, proxysql, stop, tasks);
        sweep::spawn(&router.inner);
        router
    }

    /// A router over a hub that the caller feeds ([`Hub::observe`]): for tests
    /// and simulations, without servers. It observes nothing by itself and
    /// forgets no session.
    pub fn over(hub: Arc<Hub>, config: &Config) -> Self {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        Self::made_of(hub, config, None, stop, tasks)
    }

    fn made_of(
        hub: Arc<Hub>,
        config: &Config,
        proxysql: Option<Arc<Controller>>,
        stop: CancellationToken,
        tasks: TaskTracker,
    ) -> Self {
        let mut random = rand::rng();
        let inner = Inner {
            hub,
            sessions: Sessions::new(config.sessions, random.random()),
            routing: config.routing,
            stats: Stats::default(),
            seeds: AtomicU64::new(random.random()),
            query_timeout: config.observe.query_timeout,
            proxysql,
            stop,
            tasks,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Ends the observation and waits until its connections are closed.
    pub async fn stop(&self) {
        self.inner.stop.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    /// The newest snapshot of the fleet.
    pub fn view(&self) -> Arc<FleetView> {
        Arc::clone(&self.inner.hub.view())
    }

    /// The observation, for its counters.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.inner.hub
    }

    /// The session table, for its counters.
    pub fn sessions(&self) -> &Sessions {
        &self.inner.sessions
    }

    /// What keeps ProxySQL in step, when it is configured.
    pub fn proxysql(&self) -> Option<&Arc<Controller>> {
        self.inner.proxysql.as_ref()
    }

    /// The router's own counters.
    pub fn stats(&self) -> &Stats {
        &self.inner.stats
    }

    /// Remembers a commit. The result is the token: what a server must have
    /// executed to show it.
    ///
    /// # Errors
    /// When the source had to be asked and gave no answer. The session, if one
    /// was named, then reads from the source only, until its time has passed.
    pub async fn wrote(&self, write: &Write<'_>) -> Result<GtidSet, RouterError> {
        let stats = &self.inner.stats;
        stats.writes.fetch_add(1, Ordering::Relaxed);
        let token = match &write.gtid {
            Some(gtid) if gtid.is_empty() => {
                return Err(RouterError::Invalid {
                    field: "gtid",
                    problem: "is empty".into(),
                });
            }
            Some(gtid) => gtid.clone(),
            None => self.fenced(write.session).await?,
        };
        if let Some(session) = write.session {
            self.remember(session, &token);
        }
        Ok(token)
    }

    /// What is known of a session.
    pub fn session(&self, session: &str) -> State {
        let sessions = &self.inner.sessions;
        sessions.state(sessions.key(session), clock::now())
    }

    /// Forgets a session; false when nothing was known of it.
    pub fn forget(&self, session: &str) -> bool {
        let sessions = &self.inner.sessions;
        sessions.forget(sessions.key(session))
    }

    /// Where the read may go now.
    ///
    /// # Errors
    /// When the request is wrong, or no server can keep the promise.
    pub async fn route(&self, read: &Read<'_>) -> Result<Route, RouterError> {
        let arrived = clock::now();
        let inner = &*self.inner;
        let key = read.session.map(|session| inner.sessions.key(session));
        let mut ask = self.ask(read, arrived)?;
        ask.session = key.map(|key| inner.sessions.state(key, arrived));
        let outcome = steps::run(&inner.hub, &mut ask, arrived).await;
        let (view, decision, waited) = match outcome {
            Ok(decided) => decided,
            Err(failure) => {
                inner.stats.failed(ask.policy.consistency, &failure);
                return Err(failure.into());
            }
        };
        let server = view.server(decision.server);
        server.load.assign();
        if let (Some(key), Some(known)) = (key, &ask.session) {
            // Reads of every promise count: a later one must not be older. Only
            // what a decision looked at is covered by its server, though. A read
            // that finds no room marks the session as dropped, which the next
            // read heeds.
            let covers = ask.policy.consistency.covers_reads();
            let (known, now) = (covers.then_some(known), clock::now());
            let _kept: Kept = inner.sessions.read(key, decision.life, known, now);
            if let Some(lost) = &decision.lost {
                inner.sessions.rebase(key, lost);
            }
        }
        inner
            .stats
            .decided(ask.policy.consistency, &decision, waited);
        let candidates = read.explain.then(|| candidates(&view, &ask));
        let consistency = ask.policy.consistency;
        Ok(Route {
            info: Arc::clone(&server.info),
            token: token_of(&ask, &decision),
            hostgroup: self.hostgroup(decision.server),
            decision,
            consistency,
            waited,
            candidates,
        })
    }

    fn hostgroup(&self, server: ServerIx) -> Option<u32> {
        self.inner.proxysql.as_ref()?.hints().hostgroup(server)
    }

    async fn fenced(&self, session: Option<&str>) -> Result<GtidSet, RouterError> {
        let deadline = clock::now().plus(self.inner.query_timeout);
        let error = match self.inner.hub.fence(deadline).await {
            Ok(fence) => return Ok(GtidSet::clone(&fence.executed)),
            Err(error) => error,
        };
        if let Some(session) = session {
            // The write may have happened, and what it was is not known.
            let sessions = &self.inner.sessions;
            let _kept: Kept = sessions.drop_session(sessions.key(session), clock::now());
        }
        Err(RouterError::Fence(error.to_string()))
    }

    fn remember(&self, session: &str, token: &GtidSet) {
        let sessions = &self.inner.sessions;
        let view = self.inner.hub.view();
        let wrote = Requirement::above(token, &view.floor.set);
        let source = view.source().and_then(|source| source.executed());
        let kept = sessions.write(
            sessions.key(session),
            &wrote,
            &view.floor,
            source.map(|set| &**set),
            clock::now(),
        );
        if kept == Kept::Dropped {
            tracing::debug!(
                "session table full: a session reads from the source until its ttl has passed"
            );
        }
    }

    fn ask(&self, read: &Read<'_>, arrived: Moment) -> Result<Ask, RouterError> {
        let routing = &self.inner.routing;
        let max_wait = read.max_wait.unwrap_or(routing.max_wait);
        if max_wait > routing.max_wait_limit {
            let problem = format!(
                "{} is above the limit of {} ms",
                max_wait.as_millis(),
                routing.max_wait_limit.as_millis()
            );
            return Err(RouterError::Invalid {
                field: "max_wait_ms",
                problem,
            });
        }
        let consistency = read.consistency.unwrap_or(routing.consistency);
        let max_staleness = read.max_staleness.or(routing.max_staleness);
        if consistency == Consistency::Bounded && max_staleness.is_none() {
            return Err(RouterError::Invalid {
                field: "max_staleness_ms",
                problem: "is needed with consistency=bounded".into(),
            });
        }
        let policy = Policy {
            consistency,
            max_staleness,
            on_timeout: read.on_timeout.unwrap_or(routing.on_timeout),
            zone: self.zone(read.zone),
        };
        let deadline = arrived.plus(max_wait);
        Ok(Ask {
            policy,
            token: read
                .token
                .as_ref()
                .map(|token| Requirement::of(token.clone()))
                .unwrap_or_default(),
            deadline,
            hard_deadline: deadline.plus(QUESTION_GRACE),
            session_staleness_max: self.inner.sessions.staleness_max(),
            seed: self.seed(),
            ..Ask::default()
        })
    }

    fn zone(&self, zone: Option<&str>) -> u16 {
        let Some(zone) = zone else { return 0 };
        let view = self.inner.hub.view();
        let server = view
            .servers
            .iter()
            .find(|server| server.info.zone.as_deref() == Some(zone));
        server.map_or(0, |server| server.info.zone_number)
    }

    /// A cheap stream of numbers that differ (SplitMix64, Steele et al. 2014).
    fn seed(&self) -> u64 {
        let mut z = self
            .inner
            .seeds
            .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// What the caller may ask for from now on: its writes, less what is lost.
fn token_of(ask: &Ask, decision: &Decision) -> Requirement {
    let mut need = ask.token.clone();
    if let Some(session) = &ask.session {
        need = need.and(&session.requirement);
    }
    match &decision.lost {
        Some(lost) => Requirement::of(need.to_set().subtract(lost)),
        None => need,
    }
}

fn candidates(view: &FleetView, ask: &Ask) -> Vec<(Arc<ServerInfo>, Candidate)> {
    let named = |candidate: Candidate| (Arc::clone(&view.server(candidate.server).info), candidate);
    explain(view, ask, clock::now())
        .into_iter()
        .map(named)
        .collect()
}
