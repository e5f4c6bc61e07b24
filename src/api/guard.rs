//! What stands before every handler: the credential and the bound on work.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Shared;
use super::problem::Problem;

pub(super) async fn guard(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    if let Some(token) = &shared.token
        && !carries(request.headers(), token)
    {
        return Problem::unauthorized().into_response();
    }
    let Some(_place) = Place::take(&shared.in_flight, shared.in_flight_max) else {
        return Problem::too_many(shared.in_flight_max).into_response();
    };
    next.run(request).await
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
