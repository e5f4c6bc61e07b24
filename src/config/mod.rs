//! The configuration file: parsed once into [`Config`], with every error naming
//! the key and the value.
//!
//! The rest of the program never sees a string that still has to be checked.

mod feed;
mod proxysql;
mod raw;

#[cfg(test)]
mod tests;

pub use feed::{Feed, Listen};

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::fleet::ServerSpec;
use crate::observe::{Login, Settings};
use crate::route::{Consistency, OnTimeout};
use crate::session;

/// Most servers in one fleet.
const SERVERS_MAX: usize = 4096;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// Not TOML, an unknown key, or a value of a wrong form: names line and key.
    #[error("{0}")]
    Syntax(Box<toml::de::Error>),
    /// A value that cannot be right.
    #[error("{key}: {problem}")]
    Value {
        /// The key, as `section.key`.
        key: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// The HTTP interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Api {
    /// TCP address.
    pub listen: SocketAddr,
    /// Unix socket, beside TCP.
    pub socket: Option<PathBuf>,
    /// Bearer token that every request but health checks must carry.
    pub token: Option<String>,
    /// Requests worked on at once; more are answered 429.
    pub in_flight_max: usize,
    /// Open connections; more wait to be accepted.
    pub connections_max: usize,
    /// How long running requests may take after a stop.
    pub drain: Duration,
}

/// Defaults of a routing request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routing {
    /// The promise.
    pub consistency: Consistency,
    /// A bound on staleness beside it.
    pub max_staleness: Option<Duration>,
    /// How long to wait for a replica.
    pub max_wait: Duration,
    /// The longest wait a request may ask for.
    pub max_wait_limit: Duration,
    /// What follows a timeout.
    pub on_timeout: OnTimeout,
}

/// Everything that can be configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The servers.
    pub servers: Vec<ServerSpec>,
    /// How to log in to them.
    pub login: Login,
    /// How hard to look at them.
    pub observe: Settings,
    /// The HTTP interface.
    pub api: Api,
    /// Defaults of a routing request.
    pub routing: Routing,
    /// The session table.
    pub sessions: session::Limits,
    /// ProxySQL, if it is to be kept in step.
    pub proxysql: Option<crate::proxysql::Settings>,
    /// The GTID feeds.
    pub feed: Feed,
}

impl Config {
    /// Reads a file. Passwords named by `password_env` come from the
    /// environment.
    ///
    /// # Errors
    /// When the file cannot be read, or a value in it cannot be used.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, &|name| std::env::var(name).ok())
    }

    /// Reads a configuration from text; `env` looks up environment variables.
    ///
    /// # Errors
    /// When a key is unknown or a value cannot be used.
    pub fn parse(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let raw: raw::Raw =
            toml::from_str(text).map_err(|error| ConfigError::Syntax(Box::new(error)))?;
        resolve(raw, env)
    }
}

fn resolve(raw: raw::Raw, env: &dyn Fn(&str) -> Option<String>) -> Result<Config, ConfigError> {
    let password = secret(
        "mysql.password",
        raw.mysql.password,
        raw.mysql.password_env,
        raw.mysql.password_file,
        env,
    )?
    .unwrap_or_default();
    let token = secret(
        "api.token",
        raw.api.token,
        raw.api.token_env,
        raw.api.token_file,
        env,
    )?;
    let login = Login {
        user: raw.mysql.user,
        password,
        tls: raw.mysql.tls,
        tls_ca: raw.mysql.tls_ca,
    };
    let servers = servers(raw.mysql.servers)?;
    let sessions = sessions(&raw.sessions)?;
    positive("routing.max_wait_limit", raw.routing.max_wait_limit)?;
    if raw.routing.max_wait > raw.routing.max_wait_limit {
        return Err(value(
            "routing.max_wait",
            "is longer than routing.max_wait_limit",
        ));
    }
    if raw.routing.consistency == Consistency::Bounded && raw.routing.max_staleness.is_none() {
        return Err(value(
            "routing.max_staleness",
            "is needed with consistency = \"bounded\"",
        ));
    }
    let mut observe = observe(&raw.observe)?;
    let proxysql = raw
        .proxysql
        .map(|raw| proxysql::resolve(raw, servers.len(), env))
        .transpose()?;
    if let Some(proxysql) = &proxysql {
        proxysql::look_often_enough(proxysql, &mut observe);
    }
    let feed = feed::resolve(raw.feed, &servers, raw.api.listen)?;
    Ok(Config {
        servers,
        login,
        observe,
        api: Api {
            listen: raw.api.listen,
            socket: raw.api.socket,
            token,
            in_flight_max: at_least_one("api.in_flight_max", raw.api.in_flight_max)?,
            connections_max: at_least_one("api.connections_max", raw.api.connections_max)?,
            drain: raw.api.drain,
        },
        routing: Routing {
            consistency: raw.routing.consistency,
            max_staleness: raw.routing.max_staleness,
            max_wait: raw.routing.max_wait,
            max_wait_limit: raw.routing.max_wait_limit,
            on_timeout: raw.routing.on_timeout,
        },
        sessions,
        proxysql,
        feed,
    })
}

fn servers(raw: Vec<raw::Server>) -> Result<Vec<ServerSpec>, ConfigError> {
    if raw.is_empty() {
        return Err(value("mysql.servers", "is empty: name at least one server"));
    }
    if raw.len() > SERVERS_MAX {
        return Err(value(
            "mysql.servers",
            &format!(
                "has {} entries; at most {SERVERS_MAX} are supported",
                raw.len()
            ),
        ));
    }
    let (mut names, mut addresses) = (HashSet::new(), HashSet::new());
    for server in &raw {
        if server.name.is_empty() {
            return Err(value("mysql.servers.name", "is empty"));
        }
        if crate::fleet::split_address(&server.address).is_none() {
            return Err(value(
                "mysql.servers.address",
                &format!("{:?} of {} is not host:port", server.address, server.name),
            ));
        }
        if !names.insert(server.name.clone()) {
            return Err(value(
                "mysql.servers.name",
                &format!("{:?} is used twice", server.name),
            ));
        }
        if !addresses.insert(server.address.clone()) {
            return Err(value(
                "mysql.servers.address",
                &format!("{:?} is used twice", server.address),
            ));
        }
    }
    Ok(raw
        .into_iter()
        .map(|server| ServerSpec {
            name: server.name,
            address: server.address,
            zone: server.zone,
        })
        .collect())
}

fn sessions(raw: &raw::Sessions) -> Result<session::Limits, ConfigError> {
    let limits = session::Limits {
        sessions_max: at_least_one("sessions.max", raw.max)?,
        ttl: raw.ttl,
        answer_ttl: raw.answer_ttl,
    };
    if limits.staleness_max() < Duration::from_secs(1) {
        return Err(value(
            "sessions.ttl",
            "must be longer than sessions.answer_ttl by two seconds or more",
        ));
    }
    Ok(limits)
}

fn observe(raw: &raw::Observe) -> Result<Settings, ConfigError> {
    positive("observe.status_interval", raw.status_interval)?;
    positive("observe.source_heartbeat", raw.source_heartbeat)?;
    positive("observe.replica_heartbeat", raw.replica_heartbeat)?;
    positive("observe.query_timeout", raw.query_timeout)?;
    Ok(Settings {
        status_interval: raw.status_interval,
        pump_interval: raw.pump_interval,
        source_heartbeat: raw.source_heartbeat,
        replica_heartbeat: raw.replica_heartbeat,
        barriers: at_least_one("observe.barriers", raw.barriers)?.min(64),
        queries_per_second_max: at_least_one(
            "observe.queries_per_second_max",
            raw.queries_per_second_max as usize,
        )
        .map(|_| raw.queries_per_second_max)?,
        fences_per_second_max: at_least_one(
            "observe.fences_per_second_max",
            raw.fences_per_second_max as usize,
        )
        .map(|_| raw.fences_per_second_max)?,
        query_timeout: raw.query_timeout,
    })
}

/// A secret given in at most one of three ways.
fn secret(
    key: &str,
    plain: Option<String>,
    variable: Option<String>,
    file: Option<PathBuf>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<String>, ConfigError> {
    match (plain, variable, file) {
        (None, None, None) => Ok(None),
        (Some(plain), None, None) => Ok(Some(plain)),
        (None, Some(name), None) => env(&name).map(Some).ok_or_else(|| {
            value(
                &format!("{key}_env"),
                &format!("the environment variable {name} is not set"),
            )
        }),
        (None, None, Some(path)) => {
            let text = std::fs::read_to_string(&path).map_err(|error| {
                value(
                    &format!("{key}_file"),
                    &format!("cannot read {}: {error}", path.display()),
                )
            })?;
            Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
        }
        _ => Err(value(
            key,
            &format!("give only one of {key}, {key}_env and {key}_file"),
        )),
    }
}

fn positive(key: &str, span: Duration) -> Result<(), ConfigError> {
    if span.is_zero() {
        Err(value(key, "must be longer than 0"))
    } else {
        Ok(())
    }
}

fn at_least_one(key: &str, number: usize) -> Result<usize, ConfigError> {
    if number == 0 {
        Err(value(key, "must be at least 1"))
    } else {
        Ok(number)
    }
}

fn value(key: &str, problem: &str) -> ConfigError {
    ConfigError::Value {
        key: key.to_owned(),
        problem: problem.to_owned(),
    }
}
