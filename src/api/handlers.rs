//! The handlers: wire types in, the router's answer out.

use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use serde::Serialize;

use super::Shared;
use super::guard::{Admitted, Whole};
use super::problem::Problem;
use super::wire::{
    RouteRequest, RouteResponse, ServersResponse, SessionResponse, WriteRequest, WriteResponse,
};
use crate::fleet::{FleetView, Role, ServerView};
use crate::gtid::{GtidSet, Limits};
use crate::router::{Read, Write};

/// Longest session key.
const SESSION_MAX: usize = 1024;
/// Room for an answer about one read, made at once.
const ANSWER_USUAL: usize = 512;

type Answer = Result<axum::response::Response, Problem>;

/// Where may this read go now?
#[utoipa::path(post, path = "/v1/route", request_body = RouteRequest, responses(
    (status = 200, body = RouteResponse<'static>),
    (status = 400, body = Problem), (status = 401, body = Problem), (status = 413, body = Problem),
    (status = 429, body = Problem), (status = 503, body = Problem), (status = 504, body = Problem)))]
pub(super) async fn route(
    State(shared): State<Shared>,
    _admitted: Admitted,
    Whole(body): Whole,
) -> Answer {
    let request: RouteRequest = if body.is_empty() {
        RouteRequest::default()
    } else {
        parse(&body)?
    };
    routed(&shared, &request).await
}

/// The same with the fields in the query.
#[utoipa::path(get, path = "/v1/route", params(
    ("session" = Option<String>, Query, description = "The application's key"),
    ("token" = Option<String>, Query, description = "A token"),
    ("consistency" = Option<String>, Query, description = "The promise"),
    ("max_staleness_ms" = Option<f64>, Query, description = "A bound on staleness"),
    ("max_wait_ms" = Option<f64>, Query, description = "How long to wait for a replica"),
    ("on_timeout" = Option<String>, Query, description = "source, stale or error"),
    ("zone" = Option<String>, Query, description = "The caller's zone"),
    ("explain" = Option<bool>, Query, description = "Tell how every server stood")),
    responses((status = 200, body = RouteResponse<'static>), (status = 400, body = Problem)))]
pub(super) async fn route_by_query(
    State(shared): State<Shared>,
    _admitted: Admitted,
    RawQuery(query): RawQuery,
) -> Answer {
    let query = query.unwrap_or_default();
    let pairs = serde_urlencoded::Deserializer::new(form_urlencoded::parse(query.as_bytes()));
    let request: RouteRequest = named(serde_path_to_error::deserialize(pairs))?;
    routed(&shared, &request).await
}

async fn routed(shared: &Shared, request: &RouteRequest) -> Answer {
    let read = Read {
        session: session_key(request.session.as_deref())?,
        token: gtid_set("token", request.token.as_deref())?,
        consistency: request.consistency,
        max_staleness: span("max_staleness_ms", request.max_staleness_ms)?,
        max_wait: span("max_wait_ms", request.max_wait_ms)?,
        on_timeout: request.on_timeout,
        zone: request.zone.as_deref(),
        explain: request.explain.unwrap_or(false),
    };
    let route = shared.router.route(&read).await?;
    if !route.waited.is_zero() {
        shared.metrics.waited(route.waited, route.consistency);
    }
    Ok(json(&RouteResponse::of(&route)))
}

/// Remember a commit.
#[utoipa::path(post, path = "/v1/writes", request_body = WriteRequest, responses(
    (status = 200, body = WriteResponse),
    (status = 400, body = Problem), (status = 401, body = Problem), (status = 413, body = Problem), (status = 503, body = Problem)))]
pub(super) async fn wrote(
    State(shared): State<Shared>,
    _admitted: Admitted,
    Whole(body): Whole,
) -> Answer {
    let request: WriteRequest = if body.is_empty() {
        WriteRequest::default()
    } else {
        parse(&body)?
    };
    let write = Write {
        session: session_key(request.session.as_deref())?,
        gtid: gtid_set("gtid", request.gtid.as_deref())?,
    };
    let token = shared.router.wrote(&write).await?;
    Ok(json(&WriteResponse {
        session: write.session.map(str::to_owned),
        token: token.to_string(),
    }))
}

/// Every server as known now.
#[utoipa::path(get, path = "/v1/servers", responses((status = 200, body = ServersResponse)))]
pub(super) async fn servers(State(shared): State<Shared>, _admitted: Admitted) -> Answer {
    Ok(json(&ServersResponse::of(&shared.router.view())))
}

/// What is known of a session.
#[utoipa::path(get, path = "/v1/sessions/{id}", params(("id" = String, Path, description = "The session's key")),
    responses((status = 200, body = SessionResponse)))]
pub(super) async fn session(
    State(shared): State<Shared>,
    _admitted: Admitted,
    Path(id): Path<String>,
) -> Answer {
    let state = shared.router.session(&id);
    Ok(json(&SessionResponse::of(
        &id,
        &state,
        &shared.router.view(),
    )))
}

/// Forget a session.
#[utoipa::path(delete, path = "/v1/sessions/{id}", params(("id" = String, Path, description = "The session's key")),
    responses((status = 204, description = "Forgotten"), (status = 404, body = Problem)))]
pub(super) async fn forget(
    State(shared): State<Shared>,
    _admitted: Admitted,
    Path(id): Path<String>,
) -> Answer {
    if shared.router.forget(&id) {
        Ok(StatusCode::NO_CONTENT.into_response())
    } else {
        Err(Problem::not_found(
            "nothing is unsettled about this session",
        ))
    }
}

/// Metrics in Prometheus' text form.
#[utoipa::path(get, path = "/metrics", responses((status = 200, body = String, content_type = "text/plain")))]
pub(super) async fn metrics(State(shared): State<Shared>, _admitted: Admitted) -> Answer {
    let text = shared.metrics.text();
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}

/// The process works.
#[utoipa::path(get, path = "/healthz", responses((status = 200, description = "The process works")))]
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Reads can be answered.
#[utoipa::path(get, path = "/readyz", responses((status = 200, description = "The source is known"), (status = 503, body = Problem)))]
pub(super) async fn readyz(State(shared): State<Shared>) -> Result<&'static str, Problem> {
    let view = shared.router.view();
    match (view.source(), &view.source) {
        (Some(_), _) => Ok("ready\n"),
        (None, Err(error)) => Err(Problem::no_server(error.to_string())),
        (None, Ok(_)) => Err(Problem::no_server("the source cannot be reached")),
    }
}

pub(super) async fn not_found() -> Problem {
    Problem::not_found("no such path; see /openapi.json")
}

pub(super) async fn method_not_allowed() -> Problem {
    Problem::method_not_allowed()
}

/// What somebody should look at on this server.
pub(super) fn warnings(view: &FleetView, server: &ServerView) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(status) = server.status() else {
        return warnings;
    };
    if server.role == Role::Replica {
        if !status.read_only {
            warnings.push("replica accepts writes: set super_read_only=ON".to_owned());
        }
        for channel in &status.channels {
            if !channel.applier_running {
                warnings.push("applier is stopped".to_owned());
            }
            if !channel.receiver_running {
                warnings.push("receiver is not connected".to_owned());
            }
        }
        if status.preserve_commit_order == Some(false) {
            warnings
                .push("replica_preserve_commit_order=OFF: the executed set has gaps".to_owned());
        }
    }
    if server.usable && !server.covers_floor && view.floor.as_of.is_some() {
        warnings.push(
            "lacks transactions that settled sessions rely on: serves no session until it has them"
                .to_owned(),
        );
    }
    warnings
}

fn parse<'a, T: serde::Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    // The plain way first: finding the field at fault costs time, and only
    // requests that are wrong have one.
    serde_json::from_slice(body).or_else(|_| {
        let mut json = serde_json::Deserializer::from_slice(body);
        named(serde_path_to_error::deserialize(&mut json))
    })
}

/// The value, or a problem that names the field at fault.
fn named<T, E: std::fmt::Display>(
    parsed: Result<T, serde_path_to_error::Error<E>>,
) -> Result<T, Problem> {
    parsed.map_err(|error| {
        let field = error.path().to_string();
        let field = Some(field.as_str()).filter(|field| *field != ".");
        Problem::malformed(field, error.inner().to_string())
    })
}

fn session_key(session: Option<&str>) -> Result<Option<&str>, Problem> {
    match session {
        Some("") => Err(Problem::malformed(Some("session"), "session: is empty")),
        Some(long) if long.len() > SESSION_MAX => Err(Problem::malformed(
            Some("session"),
            format!("session: is longer than {SESSION_MAX} bytes"),
        )),
        session => Ok(session),
    }
}

fn gtid_set(field: &'static str, text: Option<&str>) -> Result<Option<GtidSet>, Problem> {
    text.map(|text| {
        GtidSet::parse(text, Limits::TOKEN)
            .map_err(|error| Problem::malformed(Some(field), format!("{field}: {error}")))
    })
    .transpose()
}

fn span(field: &'static str, ms: Option<f64>) -> Result<Option<std::time::Duration>, Problem> {
    let of = |ms: f64| {
        std::time::Duration::try_from_secs_f64(ms / 1000.0).map_err(|_| {
            Problem::malformed(
                Some(field),
                format!("{field}: {ms} is not a number of milliseconds"),
            )
        })
    };
    ms.map(of).transpose()
}

fn json(value: &impl Serialize) -> axum::response::Response {
    let mut body = Vec::with_capacity(ANSWER_USUAL);
    serde_json::to_writer(&mut body, value).expect("wire types are plain data");
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}
