//! What stands before every handler: the credential and the bound on work.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use super::problem::Problem;
use super::{BODY_MAX, Shared};

/// The right to be worked on: a credential and a place, held until the answer
/// is made. An extractor, because a middleware costs every request a few
/// allocations and copies.
pub(super) struct Admitted(#[expect(dead_code, reason = "held, not read")] Place);

impl FromRequestParts<Shared> for Admitted {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Problem> {
        if let Some(token) = &shared.token
            && !carries(&parts.headers, token)
        {
            return Err(Problem::unauthorized());
        }
        Place::take(&shared.in_flight, shared.in_flight_max)
            .map(Self)
            .ok_or_else(|| Problem::too_many(shared.in_flight_max))
    }
}

/// A whole request body of at most [`BODY_MAX`] bytes.
pub(super) struct Whole(pub(super) Bytes);

impl FromRequest<Shared> for Whole {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &Shared) -> Result<Self, Problem> {
        let body = Limited::new(request.into_body(), BODY_MAX).collect().await;
        match body {
            Ok(body) => Ok(Self(body.to_bytes())),
            Err(error) if error.is::<LengthLimitError>() => Err(Problem::too_large(BODY_MAX)),
            Err(error) => Err(Problem::malformed(None, error.to_string())),
        }
    }
}

fn carries(headers: &HeaderMap, token: &str) -> bool {
    let given = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    given
        .and_then(|value| value.strip_prefix("Bearer "))
        .is_some_and(|given| same(given.as_bytes(), token.as_bytes()))
}

/// Compares in a time that does not depend on where the two differ.
fn same(given: &[u8], token: &[u8]) -> bool {
    let differ = given
        .iter()
        .zip(token)
        .fold(0, |differ, (a, b)| differ | (a ^ b));
    given.len() == token.len() && differ == 0
}

/// A place among the requests in progress.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(in_flight: &Arc<AtomicUsize>, max: usize) -> Option<Self> {
        let place = Self(Arc::clone(in_flight));
        (in_flight.fetch_add(1, Ordering::Relaxed) < max).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
