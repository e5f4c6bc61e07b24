//! Causeway's HTTP interface, as a client outside of it sees it.
//!
//! Written against the documented contract and deliberately sharing no type with
//! the server, so that a change of the wire format breaks the check.

use std::time::Duration;

use anyhow::Context;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};

use super::args::{OnTimeout, VerifyArgs, VerifyServer};
use super::checker::Consistency;

/// Beyond Causeway's own waiting, how long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// A client of one Causeway.
#[derive(Debug)]
pub(super) struct Api {
    http: reqwest::Client,
    base: String,
    ask: Ask,
}

/// What every read asks for, passed through from the command line.
#[derive(Debug, Clone, Serialize)]
struct Ask {
    #[serde(skip_serializing_if = "Option::is_none")]
    consistency: Option<Consistency>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_staleness_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_wait_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_timeout: Option<OnTimeout>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
}

#[derive(Serialize)]
struct RouteBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
    #[serde(flatten)]
    ask: &'a Ask,
}

#[derive(Serialize)]
struct WriteBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gtid: Option<&'a str>,
}

#[derive(Deserialize)]
struct WriteAnswer {
    token: String,
}

/// What `/v1/route` answered.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct RouteAnswer {
    pub(super) server: String,
    pub(super) address: String,
    pub(super) role: String,
    /// What sends a query there through ProxySQL.
    pub(super) comment: Option<String>,
    pub(super) consistency: String,
    pub(super) reason: String,
    pub(super) degraded: bool,
    pub(super) token: Option<String>,
    /// Writes that a failover lost.
    pub(super) lost: Option<String>,
}

#[derive(Deserialize)]
struct ServersAnswer {
    servers: Vec<ServerAnswer>,
}

#[derive(Deserialize)]
struct ServerAnswer {
    name: String,
    address: String,
    role: Option<String>,
}

/// RFC 9457.
#[derive(Deserialize)]
struct Problem {
    #[serde(rename = "type")]
    kind: String,
}

/// Why Causeway gave no usable answer, as counted in the report.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(super) struct ApiError(String);

impl Api {
    pub(super) fn new(args: &VerifyArgs) -> anyhow::Result<Self> {
        let wait = Duration::from_millis(args.max_wait_ms.unwrap_or(0));
        let http = reqwest::Client::builder()
            .timeout(wait + ANSWER_MAX)
            .connect_timeout(ANSWER_MAX)
            .pool_max_idle_per_host(usize::try_from(args.clients).unwrap_or(usize::MAX))
            .tcp_nodelay(true)
            .no_proxy()
            .default_headers(credential(args)?)
            .build()
            .context("cannot set up the HTTP client")?;
        Ok(Self {
            http,
            base: args.url.trim_end_matches('/').to_owned(),
            ask: Ask {
                consistency: args.consistency,
                max_staleness_ms: args.max_staleness_ms,
                max_wait_ms: args.max_wait_ms,
                on_timeout: args.on_timeout,
                zone: args.zone.clone(),
            },
        })
    }

    /// The servers that Causeway watches, each with whether it is the source.
    pub(super) async fn servers(&self) -> anyhow::Result<Vec<(VerifyServer, bool)>> {
        let url = format!("{}/v1/servers", self.base);
        let answer: ServersAnswer = send("servers", self.http.get(&url)).await.with_context(
            || {
                format!(
                    "cannot ask Causeway at {url}: is `causeway serve` running, and --url right?"
                )
            },
        )?;
        let convert = |server: ServerAnswer| {
            let is_source = matches!(server.role.as_deref(), Some("source" | "primary"));
            let server = VerifyServer::new(&server.name, &server.address);
            Ok((server.map_err(anyhow::Error::msg)?, is_source))
        };
        answer.servers.into_iter().map(convert).collect()
    }

    /// Tells of a write; without a GTID Causeway fences. Returns its token.
    pub(super) async fn wrote(
        &self,
        session: Option<&str>,
        gtid: Option<&str>,
    ) -> Result<String, ApiError> {
        let request = self.http.post(format!("{}/v1/writes", self.base));
        let body = WriteBody { session, gtid };
        let answer: WriteAnswer = send("writes", request.json(&body)).await?;
        Ok(answer.token)
    }

    /// Asks where to read.
    pub(super) async fn route(
        &self,
        session: Option<&str>,
        token: Option<&str>,
    ) -> Result<RouteAnswer, ApiError> {
        let request = self.http.post(format!("{}/v1/route", self.base));
        let ask = &self.ask;
        let body = RouteBody {
            session,
            token,
            ask,
        };
        send("route", request.json(&body)).await
    }
}

/// The credential of the HTTP interface, where one is set.
fn credential(args: &VerifyArgs) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    if let Ok(token) = std::env::var(&args.api_token_env) {
        let bearer = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut bearer = bearer.with_context(|| format!("${} is no token", args.api_token_env))?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    Ok(headers)
}

/// Sends a request; what goes wrong becomes a short label that starts with `what`.
async fn send<T: serde::de::DeserializeOwned>(
    what: &str,
    request: reqwest::RequestBuilder,
) -> Result<T, ApiError> {
    let failed = |error: reqwest::Error| ApiError(format!("{what}: {}", transport_label(&error)));
    let response = request.send().await.map_err(failed)?;
    let status = response.status().as_u16();
    let body = response.bytes().await.map_err(failed)?;
    if status != 200 {
        return Err(ApiError(format!(
            "{what}: {status} {}",
            problem_label(&body)
        )));
    }
    serde_json::from_slice(&body)
        .map_err(|error| ApiError(format!("{what}: answer not understood ({error})")))
}

fn transport_label(error: &reqwest::Error) -> &'static str {
    if error.is_timeout() {
        "no answer in time"
    } else if error.is_connect() {
        "cannot connect"
    } else {
        "connection broke"
    }
}

/// The last part of a problem's type.
fn problem_label(body: &[u8]) -> String {
    let problem = serde_json::from_slice::<Problem>(body);
    problem.map_or_else(
        |_| "without a problem document".into(),
        |problem| {
            let name = problem.kind.rsplit(['/', ':', '#']).next();
            name.unwrap_or_default().chars().take(60).collect()
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_named_by_the_last_part_of_its_type() {
        let label = |kind: &str| problem_label(format!("{{\"type\":\"{kind}\"}}").as_bytes());
        assert_eq!(
            label("https://example.org/problems/wait-timeout"),
            "wait-timeout"
        );
        assert_eq!(label("urn:causeway:no-server"), "no-server");
        assert_eq!(label("wait-timeout"), "wait-timeout");
        assert_eq!(problem_label(b"<html>"), "without a problem document");
    }

    #[test]
    fn what_was_not_asked_for_is_left_out_of_the_request() {
        let ask = Ask {
            consistency: Some(Consistency::ReadYourWrites),
            max_staleness_ms: None,
            max_wait_ms: Some(20),
            on_timeout: Some(OnTimeout::Stale),
            zone: None,
        };
        let body = RouteBody {
            session: Some("u1"),
            token: None,
            ask: &ask,
        };
        let expected = serde_json::json!({
            "session": "u1", "consistency": "read_your_writes",
            "max_wait_ms": 20, "on_timeout": "stale",
        });
        assert_eq!(serde_json::to_value(&body).unwrap(), expected);
    }
}
