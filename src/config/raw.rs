//! The file's shape, key by key, with the defaults.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::observe::Tls;
use crate::proxysql::controller::{ByHand, Mode};
use crate::proxysql::tier::LastResort;
use crate::route::{Consistency, OnTimeout};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw {
    pub(super) mysql: Mysql,
    #[serde(default)]
    pub(super) api: Api,
    #[serde(default)]
    pub(super) routing: Routing,
    #[serde(default)]
    pub(super) sessions: Sessions,
    #[serde(default)]
    pub(super) observe: Observe,
    pub(super) proxysql: Option<ProxySql>,
    #[serde(default)]
    pub(super) feed: Feed,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mysql {
    pub(super) user: String,
    pub(super) password: Option<String>,
    pub(super) password_env: Option<String>,
    pub(super) password_file: Option<PathBuf>,
    #[serde(default)]
    pub(super) tls: Tls,
    pub(super) tls_ca: Option<PathBuf>,
    pub(super) servers: Vec<Server>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Server {
    pub(super) name: String,
    pub(super) address: String,
    pub(super) zone: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Api {
    pub(super) listen: SocketAddr,
    pub(super) socket: Option<PathBuf>,
    pub(super) token: Option<String>,
    pub(super) token_env: Option<String>,
    pub(super) token_file: Option<PathBuf>,
    pub(super) in_flight_max: usize,
    pub(super) connections_max: usize,
    #[serde(deserialize_with = "duration")]
    pub(super) drain: Duration,
}

impl Default for Api {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7071)),
            socket: None,
            token: None,
            token_env: None,
            token_file: None,
            in_flight_max: 10_000,
            connections_max: 4096,
            drain: Duration::from_secs(5),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Routing {
    pub(super) consistency: Consistency,
    #[serde(deserialize_with = "maybe_duration")]
    pub(super) max_staleness: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    pub(super) max_wait: Duration,
    #[serde(deserialize_with = "duration")]
    pub(super) max_wait_limit: Duration,
    pub(super) on_timeout: OnTimeout,
}

impl Default for Routing {
    fn default() -> Self {
        Self {
            consistency: Consistency::Session,
            max_staleness: None,
            max_wait: Duration::from_millis(50),
            max_wait_limit: Duration::from_secs(10),
            on_timeout: OnTimeout::Source,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Sessions {
    #[serde(deserialize_with = "duration")]
    pub(super) ttl: Duration,
    pub(super) max: usize,
    #[serde(deserialize_with = "duration")]
    pub(super) answer_ttl: Duration,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(600),
            max: 1_000_000,
            answer_ttl: Duration::from_secs(2),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Observe {
    #[serde(deserialize_with = "duration")]
    pub(super) status_interval: Duration,
    #[serde(deserialize_with = "duration")]
    pub(super) pump_interval: Duration,
    #[serde(deserialize_with = "duration")]
    pub(super) source_heartbeat: Duration,
    #[serde(deserialize_with = "duration")]
    pub(super) replica_heartbeat: Duration,
    #[serde(deserialize_with = "duration")]
    pub(super) query_timeout: Duration,
    pub(super) barriers: usize,
    pub(super) queries_per_second_max: u32,
    pub(super) fences_per_second_max: u32,
}

impl Default for Observe {
    fn default() -> Self {
        let settings = crate::observe::Settings::default();
        Self {
            status_interval: settings.status_interval,
            pump_interval: settings.pump_interval,
            source_heartbeat: settings.source_heartbeat,
            replica_heartbeat: settings.replica_heartbeat,
            query_timeout: settings.query_timeout,
            barriers: settings.barriers,
            queries_per_second_max: settings.queries_per_second_max,
            fences_per_second_max: settings.fences_per_second_max,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProxySql {
    pub(super) user: String,
    pub(super) password: Option<String>,
    pub(super) password_env: Option<String>,
    pub(super) password_file: Option<PathBuf>,
    pub(super) instances: Vec<Instance>,
    #[serde(default)]
    pub(super) mode: Mode,
    #[serde(default)]
    pub(super) by_hand: ByHand,
    pub(super) lease: Option<String>,
    #[serde(default = "interval", deserialize_with = "duration")]
    pub(super) interval: Duration,
    #[serde(default = "load_interval_min", deserialize_with = "duration")]
    pub(super) load_interval_min: Duration,
    #[serde(default = "yes")]
    pub(super) save_to_disk: bool,
    pub(super) hints: Option<Hints>,
    #[serde(default)]
    pub(super) tier: Vec<Tier>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Instance {
    pub(super) name: String,
    pub(super) address: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hints {
    pub(super) base: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tier {
    pub(super) hostgroup: u32,
    #[serde(deserialize_with = "duration")]
    pub(super) max_staleness: Duration,
    #[serde(default, deserialize_with = "maybe_duration")]
    pub(super) enter: Option<Duration>,
    #[serde(default = "dwell", deserialize_with = "duration")]
    pub(super) dwell: Duration,
    #[serde(default = "one")]
    pub(super) min_readers: usize,
    #[serde(default = "last_resort")]
    pub(super) last_resort: LastResort,
    #[serde(default = "changes_per_minute_max")]
    pub(super) changes_per_minute_max: usize,
    #[serde(default, deserialize_with = "maybe_duration")]
    pub(super) max_replication_lag: Option<Duration>,
}

fn interval() -> Duration {
    Duration::from_secs(1)
}

fn load_interval_min() -> Duration {
    Duration::from_millis(100)
}

fn dwell() -> Duration {
    Duration::from_secs(2)
}

fn last_resort() -> LastResort {
    LastResort::Source
}

fn changes_per_minute_max() -> usize {
    30
}

fn one() -> usize {
    1
}

fn yes() -> bool {
    true
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Feed {
    /// Server name → address.
    pub(super) listen: BTreeMap<String, SocketAddr>,
}

/// A span such as `50ms`, `2s` or `10m`.
fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    humantime::parse_duration(&text).map_err(|error| {
        serde::de::Error::custom(format!(
            "{text:?} is not a duration such as \"50ms\", \"2s\" or \"10m\": {error}"
        ))
    })
}

fn maybe_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    duration(from).map(Some)
}
