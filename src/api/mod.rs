//! The HTTP interface: JSON over TCP and a Unix socket.
//!
//! Wire types live in [`wire`], one handler a file's section, no rule about
//! routing anywhere. Errors are problem documents (RFC 9457) with stable types.

mod guard;
mod handlers;
mod metrics;
mod openapi;
mod problem;
mod serve;
pub mod wire;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use axum::routing::{get, post};

pub use openapi::document as openapi_document;
pub use problem::Problem;
pub use serve::{ServeError, serve};

use crate::config;
use crate::feed::Feeds;
use crate::router::Router;

/// Largest request body.
pub const BODY_MAX: usize = 64 << 10;

/// What every handler sees.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) router: Router,
    pub(crate) token: Option<Arc<str>>,
    pub(crate) in_flight: Arc<AtomicUsize>,
    pub(crate) in_flight_max: usize,
    pub(crate) metrics: Arc<metrics::Metrics>,
}

/// All routes over `router`.
pub fn routes(router: &Router, api: &config::Api) -> axum::Router {
    routes_over(router, api, metrics::Metrics::over(router))
}

/// As [`routes`], with metrics of the feeds beside the router's.
pub fn routes_with_feeds(router: &Router, api: &config::Api, feeds: &Arc<Feeds>) -> axum::Router {
    let metrics = metrics::Metrics::over(router).with_feeds(router, feeds);
    routes_over(router, api, metrics)
}

fn routes_over(router: &Router, api: &config::Api, metrics: metrics::Metrics) -> axum::Router {
    let shared = Shared {
        router: router.clone(),
        token: api.token.as_deref().map(Arc::from),
        in_flight: Arc::default(),
        in_flight_max: api.in_flight_max,
        metrics: Arc::new(metrics),
    };
    // Every handler here but the health checks takes `guard::Admitted`.
    axum::Router::new()
        .route(
            "/v1/route",
            post(handlers::route).get(handlers::route_by_query),
        )
        .route("/v1/writes", post(handlers::wrote))
        .route("/v1/servers", get(handlers::servers))
        .route(
            "/v1/sessions/{id}",
            get(handlers::session).delete(handlers::forget),
        )
        .route("/metrics", get(handlers::metrics))
        .route("/openapi.json", get(openapi::serve))
        .route("/healthz", get(handlers::healthz))
        .route("/readyz", get(handlers::readyz))
        .fallback(handlers::not_found)
        .method_not_allowed_fallback(handlers::method_not_allowed)
        .with_state(shared)
}
