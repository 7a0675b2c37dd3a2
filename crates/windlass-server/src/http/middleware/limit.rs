//! Counts every request against the rate limit of its user, key or address.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, header, request};

use super::peer::{Client, address_of};
use crate::http::Shared;
use crate::http::caller::identify;
use crate::http::state::limiter::Tally;

/// Paths without a limit. Load balancers poll `/health` without a credential, all from one address. A first visit loads
/// dozens of UI files, and all users of an office may share one address.
const UNCOUNTED: [&str; 2] = ["/api/v1/health", "/ui/"];

/// Counts requests without a valid credential by their address. Requests with an invalid credential are included.
///
/// An authenticated caller is never rejected because of other requests from the same address.
pub async fn count(State(app): State<Shared>, mut request: Request, next: Next) -> Response {
    let Some(client) = request.extensions().get::<Client>().copied() else { return next.run(request).await };
    if UNCOUNTED.iter().any(|path| request.uri().path().starts_with(path)) {
        return next.run(request).await;
    }
    let address = address_of(client.address).to_string();
    let limiter = &app.limits.limiter;
    let tally = Tally::default();
    let brings_credential =
        [header::AUTHORIZATION, header::COOKIE].iter().any(|it| request.headers().contains_key(it));
    let refusal = match brings_credential {
        false => limiter.addresses.take(&address),
        // The handler authenticates the credential. The middleware checks the credential only if the address has
        // reached its limit.
        true => match limiter.addresses.look(&address).filter(|found| !found.allowed) {
            Some(full) => {
                let parts = head_of(&request);
                if is_known(&app, parts).await { None } else { Some(full) }
            }
            None => None,
        },
    };
    let mut response = match refusal.map(|verdict| tally.note("address", verdict)) {
        Some(Err(problem)) => problem.into_response(),
        Some(Ok(())) | None => {
            request.extensions_mut().insert(tally.clone());
            let response = next.run(request).await;
            match brings_credential && !tally.is_admitted() {
                true => limiter.stranger(&address, &tally, response),
                false => response,
            }
        }
    };
    tally.write(&mut response);
    response
}

/// Returns whether the request's credential is valid.
async fn is_known(app: &Shared, parts: request::Parts) -> bool {
    let known = identify(&parts, app).await;
    known.is_ok_and(|identity| identity.is_ok())
        || knows_cookie(app, &parts.headers).await
        || app.has_scrape_token(&parts.headers)
}

/// Returns whether a dialect's own cookie identifies a user.
async fn knows_cookie(app: &Shared, headers: &HeaderMap) -> bool {
    for dialect in &app.dialects {
        if dialect.knows_cookie(headers, app).await {
            return true;
        }
    }
    false
}

/// Copies the parts of a request that may contain a credential.
fn head_of(request: &Request) -> request::Parts {
    let (mut parts, ()) = http::Request::new(()).into_parts();
    parts.method = request.method().clone();
    parts.uri = request.uri().clone();
    parts.headers = request.headers().clone();
    parts
}
