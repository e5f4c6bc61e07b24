//! `/openapi.json`, made from the handlers and the wire types.

use axum::http::header;
use axum::response::IntoResponse;
use utoipa::OpenApi;

use super::handlers;
use super::{problem, wire};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Causeway",
        description = "Where may this session read now?",
        license(name = "Apache-2.0")
    ),
    paths(
        handlers::route,
        handlers::route_by_query,
        handlers::wrote,
        handlers::servers,
        handlers::session,
        handlers::forget,
        handlers::metrics,
        handlers::healthz,
        handlers::readyz
    ),
    components(schemas(problem::Problem, wire::ServersResponse))
)]
struct Document;

/// The document, as pretty JSON.
pub fn document() -> String {
    Document::openapi()
        .to_pretty_json()
        .expect("the document is plain data")
}

pub(super) async fn serve(_admitted: super::guard::Admitted) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], document())
}
