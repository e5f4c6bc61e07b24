//! A stand-in for Causeway's HTTP interface that routes as it is told to.
//!
//! `causeway verify` must find a router that breaks its promises. The real one
//! does not, so here is one that claims what the test wants it to claim.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::routing::{get, post};
use serde_json::{Value, json};

/// A server as it is listed: name, address, role.
pub(crate) type Listed = (String, String, &'static str);

/// What the stub answers.
#[derive(Debug, Clone)]
pub(crate) struct Behaviour {
    pub(crate) servers: Vec<Listed>,
    /// Which of `servers` each read is sent to.
    pub(crate) read_from: usize,
    pub(crate) consistency: &'static str,
    pub(crate) degraded: bool,
}

/// Serves until the test's runtime ends. Returns the URL.
pub(crate) async fn start(behaviour: Behaviour) -> anyhow::Result<String> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let router = axum::Router::new()
        .route("/v1/servers", get(servers))
        .route("/v1/writes", post(writes))
        .route("/v1/route", post(route))
        .with_state(Arc::new(behaviour));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(url)
}

async fn servers(State(behaviour): State<Arc<Behaviour>>) -> Json<Value> {
    let list = behaviour.servers.iter();
    let list =
        list.map(|(name, address, role)| json!({"name": name, "address": address, "role": role}));
    Json(json!({ "servers": list.collect::<Vec<_>>() }))
}

async fn writes(Json(body): Json<Value>) -> Json<Value> {
    let gtid = body["gtid"].as_str().unwrap_or_default();
    Json(json!({"session": body["session"], "token": gtid}))
}

async fn route(State(behaviour): State<Arc<Behaviour>>) -> Json<Value> {
    let (name, address, role) = &behaviour.servers[behaviour.read_from];
    Json(json!({
        "server": name,
        "address": address,
        "role": role,
        "consistency": behaviour.consistency,
        "reason": "stub",
        "degraded": behaviour.degraded,
        "waited_us": 0,
    }))
}
