//! What goes over the wire. Field names and units are a promise to users.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::clock;
use crate::fleet::{Channel, FleetView, ServerView};
use crate::moment::Moment;
use crate::proxysql::hints::comment;
use crate::requirement::Requirement;
use crate::route::{Consistency, OnTimeout, Reason};
use crate::router::Route;
use crate::session::State;

/// `POST /v1/writes`: a commit to remember.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteRequest {
    /// The application's key for a user, request chain or device.
    pub session: Option<String>,
    /// The commit's GTID set from the OK packet. Without it, everything
    /// committed on the source before the request counts.
    pub gtid: Option<String>,
}

/// The answer to `POST /v1/writes`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct WriteResponse {
    /// The session, as given.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session: Option<String>,
    /// What a server must have executed to show the write.
    pub token: String,
}

/// `POST /v1/route`, or the same fields in the query of a GET.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteRequest {
    /// The application's key for a user, request chain or device.
    pub session: Option<String>,
    /// A token; adds up with the session.
    pub token: Option<String>,
    /// The promise.
    #[schema(value_type = Option<String>, example = "session")]
    pub consistency: Option<Consistency>,
    /// A bound on staleness in milliseconds, beside the promise.
    pub max_staleness_ms: Option<f64>,
    /// How long to wait for a replica, in milliseconds.
    pub max_wait_ms: Option<f64>,
    /// What follows a timeout.
    #[schema(value_type = Option<String>, example = "source")]
    pub on_timeout: Option<OnTimeout>,
    /// The caller's zone.
    pub zone: Option<String>,
    /// Tell how every server stood.
    pub explain: Option<bool>,
}

/// The answer to `/v1/route`.
#[derive(Debug, Serialize, ToSchema)]
pub struct RouteResponse<'a> {
    /// The server's configured name.
    pub server: &'a str,
    /// Its `host:port`.
    pub address: &'a str,
    /// `source` or `replica`.
    pub role: &'static str,
    /// The hostgroup of ProxySQL that holds the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostgroup: Option<u32>,
    /// The comment that sends a query there: put it first.
    #[schema(example = "/* hostgroup=9002 */")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The promise that was asked for.
    #[schema(value_type = String, example = "session")]
    pub consistency: Consistency,
    /// Why this server.
    #[schema(value_type = String, example = "replica_fresh")]
    pub reason: Reason,
    /// True exactly when the promise is not kept.
    pub degraded: bool,
    /// Microseconds spent waiting and asking.
    pub waited_us: u64,
    /// The server's staleness in microseconds, as far as it is known.
    pub staleness_us: Option<u64>,
    /// The session's and the token's writes, less what is lost: the token to ask
    /// with from now on. The server has them unless `degraded`.
    pub token: String,
    /// What was required and is gone from the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// How every server stood, with `explain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidates: Option<Vec<CandidateInfo<'a>>>,
}

/// One server as a candidate.
#[derive(Debug, Serialize, ToSchema)]
pub struct CandidateInfo<'a> {
    /// The server's name.
    pub server: &'a str,
    /// `fits`, or why not.
    pub fit: &'static str,
    /// Required transactions that it has not executed.
    pub missing_transactions: Option<u64>,
}

impl<'a> RouteResponse<'a> {
    /// The wire form of a routed read.
    pub fn of(route: &'a Route) -> Self {
        let decision = &route.decision;
        let candidate = |(info, candidate): &'a (
            std::sync::Arc<crate::fleet::ServerInfo>,
            crate::route::Candidate,
        )| CandidateInfo {
            server: &info.name,
            fit: candidate.fit.name(),
            missing_transactions: candidate.missing,
        };
        Self {
            server: &route.info.name,
            address: &route.info.address,
            role: decision.role.name(),
            hostgroup: route.hostgroup,
            comment: route.hostgroup.map(comment),
            consistency: route.consistency,
            reason: decision.reason,
            degraded: decision.degraded,
            waited_us: micros(route.waited),
            staleness_us: decision.staleness.map(micros),
            token: text_of(&route.token),
            lost: decision.lost.as_ref().map(ToString::to_string),
            candidates: route
                .candidates
                .as_ref()
                .map(|all| all.iter().map(candidate).collect()),
        }
    }
}

/// `GET /v1/servers`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ServersResponse {
    /// The source's name, when it is known for sure.
    pub source: Option<String>,
    /// Why there is no source.
    pub source_error: Option<String>,
    /// The servers, in the order of the configuration.
    pub servers: Vec<ServerState>,
}

/// One server, as known now.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ServerState {
    /// The configured name.
    pub name: String,
    /// `host:port`.
    pub address: String,
    /// The configured zone.
    pub zone: Option<String>,
    /// `source`, `replica` or `unknown`.
    pub role: String,
    /// `usable`, or why it is not: `unreachable`, `access_denied`, `not_mysql`, …
    pub state: String,
    /// The fault in words.
    pub error: Option<String>,
    /// The server's version.
    pub version: Option<String>,
    /// `@@server_uuid`.
    pub server_uuid: Option<String>,
    /// Counts up whenever the executed set shrank or another server answered.
    pub epoch: u32,
    /// `@@GLOBAL.gtid_executed`, as last reported.
    pub executed: Option<String>,
    /// Age of that report in microseconds.
    pub evidence_age_us: Option<u64>,
    /// Now minus the newest moment at which all that the source had executed
    /// was executed here, in microseconds.
    pub staleness_us: Option<u64>,
    /// For how long the oldest missing transaction has been missing, in
    /// microseconds; null when nothing known is missing.
    pub behind_us: Option<u64>,
    /// Transactions executed on the source and not here.
    pub transactions_behind: Option<u64>,
    /// Transactions received here and not executed yet.
    pub received_not_executed: Option<u64>,
    /// `@@GLOBAL.read_only`.
    pub read_only: Option<bool>,
    /// Threads running at the last status poll.
    pub threads_running: Option<u32>,
    /// The receivers and appliers.
    pub channels: Vec<ChannelState>,
    /// What somebody should look at.
    pub warnings: Vec<String>,
}

/// One replication channel.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ChannelState {
    /// Its name; empty for the default channel.
    pub name: String,
    /// The source's address as the replica knows it.
    pub source_address: String,
    /// The receiver is connected.
    pub receiver_running: bool,
    /// The applier runs.
    pub applier_running: bool,
    /// The newest replication error.
    pub error: Option<String>,
    /// Configured delay in seconds.
    pub delay_s: Option<u64>,
}

impl ServersResponse {
    /// The wire form of a snapshot.
    pub fn of(view: &FleetView) -> Self {
        let now = clock::now();
        Self {
            source: view
                .source
                .as_ref()
                .ok()
                .map(|ix| view.server(*ix).info.name.clone()),
            source_error: view.source.as_ref().err().map(ToString::to_string),
            servers: view
                .servers
                .iter()
                .map(|server| ServerState::of(view, server, now))
                .collect(),
        }
    }
}

impl ServerState {
    fn of(view: &FleetView, server: &ServerView, now: Moment) -> Self {
        let status = server.status();
        Self {
            name: server.info.name.clone(),
            address: server.info.address.clone(),
            zone: server.info.zone.clone(),
            role: server.role.name().to_owned(),
            state: if server.usable {
                "usable"
            } else {
                server.fault().map_or("role_unknown", |fault| fault.kind())
            }
            .to_owned(),
            error: server.fault().map(ToString::to_string),
            version: server
                .identity()
                .map(|identity| identity.version.to_string()),
            server_uuid: server.identity().map(|identity| identity.uuid.to_string()),
            epoch: server.epoch(),
            executed: server.executed().map(ToString::to_string),
            evidence_age_us: server
                .evidence_asked()
                .map(|asked| micros(now.since(asked))),
            staleness_us: server.staleness(now).map(micros),
            behind_us: server.behind_for(now).map(micros),
            transactions_behind: view.transactions_behind(server),
            received_not_executed: view.received_not_executed(server),
            read_only: status.map(|status| status.read_only),
            threads_running: status.and_then(|status| status.threads_running),
            channels: status
                .map(|status| status.channels.iter().map(ChannelState::of).collect())
                .unwrap_or_default(),
            warnings: super::handlers::warnings(view, server),
        }
    }
}

impl ChannelState {
    fn of(channel: &Channel) -> Self {
        Self {
            name: channel.name.clone(),
            source_address: channel.source_address.clone(),
            receiver_running: channel.receiver_running,
            applier_running: channel.applier_running,
            error: channel.error.clone(),
            delay_s: channel.delay_s,
        }
    }
}

/// `GET /v1/sessions/{id}`.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionResponse {
    /// The session's key.
    pub session: String,
    /// What a server must still be checked for; empty when every usable server
    /// has it.
    pub token: String,
    /// Where its last read was sent, while that matters.
    pub last_read_from: Option<String>,
    /// It reads from the source because there was no room to remember it.
    pub source_only: bool,
}

impl SessionResponse {
    /// The wire form of a session's state.
    pub fn of(session: &str, state: &State, view: &FleetView) -> Self {
        let last = state.seen.last.and_then(|life| view.living(life));
        Self {
            session: session.to_owned(),
            token: text_of(&state.requirement),
            last_read_from: last.map(|server| server.info.name.clone()),
            source_only: state.dropped,
        }
    }
}

/// A requirement as token text.
pub fn text_of(need: &Requirement) -> String {
    match need {
        Requirement::Nothing => String::new(),
        Requirement::One(gtid) => gtid.to_string(),
        Requirement::Set(set) => set.to_string(),
        Requirement::UpTo { .. } => need.to_set().to_string(),
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
