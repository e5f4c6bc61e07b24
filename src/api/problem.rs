//! Errors on the wire: `application/problem+json` (RFC 9457).

use axum::body::Body;
use axum::http::{Response, StatusCode, header};
use axum::response::IntoResponse;
use serde::Serialize;

use crate::route::Failure;
use crate::router::RouterError;

/// A problem document. `type` is stable; `detail` is for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Problem {
    /// `urn:causeway:` and a stable name.
    #[serde(rename = "type")]
    pub kind: String,
    /// What kind of problem, in words.
    pub title: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// What exactly was wrong.
    pub detail: String,
    /// The field at fault, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

impl Problem {
    fn new(status: StatusCode, name: &str, title: &'static str, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:causeway:{name}"),
            title,
            status: status.as_u16(),
            detail: detail.into(),
            field: None,
        }
    }

    pub(crate) fn malformed(field: Option<&str>, detail: impl Into<String>) -> Self {
        let problem = Self::new(
            StatusCode::BAD_REQUEST,
            "malformed",
            "The request is malformed",
            detail,
        );
        Self {
            field: field.map(str::to_owned),
            ..problem
        }
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "No or wrong credential",
            "send Authorization: Bearer with the configured token",
        )
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", "Not found", detail)
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method-not-allowed",
            "Method not allowed",
            "see /openapi.json for what this path takes",
        )
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too-large",
            "The request is too large",
            format!("bodies may have {limit} bytes"),
        )
    }

    pub(crate) fn too_many(limit: usize) -> Self {
        Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too-many-requests",
            "Too many requests at once",
            format!("{limit} requests are in progress; try again later"),
        )
    }

    pub(crate) fn no_server(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "no-server",
            "No server can keep the promise",
            detail,
        )
    }

    pub(crate) fn wait_timeout(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::GATEWAY_TIMEOUT,
            "wait-timeout",
            "No replica kept the promise in time",
            detail,
        )
    }
}

impl From<RouterError> for Problem {
    fn from(error: RouterError) -> Self {
        match &error {
            RouterError::Invalid { field, .. } => Self::malformed(Some(field), error.to_string()),
            RouterError::Failed(Failure::WaitTimeout) => Self::wait_timeout(error.to_string()),
            RouterError::Failed(_) | RouterError::Fence(_) => Self::no_server(error.to_string()),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> axum::response::Response {
        let body = serde_json::to_vec(&self).expect("a problem is plain data");
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = StatusCode::from_u16(self.status).expect("made from a status");
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            header::HeaderValue::from_static("application/problem+json"),
        );
        response
    }
}
