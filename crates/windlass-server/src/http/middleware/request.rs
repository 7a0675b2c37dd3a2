//! Assigns every request an id that the log and the response share, measures its time, and logs one line.

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderName, HeaderValue};
use tracing::Instrument;
use windlass::port::clock::Clock;

use crate::account::secret;
use crate::http::Shared;
use crate::http::problem::Code;

/// The header with the request id, in requests and responses.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Seconds until the response began. (SK-R13)
const PROCESS_TIME: HeaderName = HeaderName::from_static("x-process-time");

/// Maximum length of an id that a client chooses.
const ID_MAX_BYTES: usize = 64;

/// Runs a request in a span with its id, then logs and counts the response.
pub async fn trace(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let id = chosen(&request).unwrap_or_else(secret::draw::<9>);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let route = request.extensions().get::<MatchedPath>().map(|route| route.as_str().to_owned());
    let route = route.unwrap_or_else(|| "unmatched".to_owned());
    let span = tracing::info_span!("request", request_id = %id, %method, path, http.route = route);
    super::trace_context::join(&span, request.headers());
    let clock = windlass::clock::SystemClock::new();
    let begun_ms = clock.monotonic_ms();
    let mut response = next.run(request).instrument(span.clone()).await;
    let took_ms = clock.monotonic_ms().saturating_sub(begun_ms);
    let status = response.status().as_u16();
    let problem = response.extensions().get::<Code>().map(|code| code.0.as_ref());
    span.in_scope(|| tracing::info!(status, took_ms, problem, "answered"));
    app.monitoring.metrics.answered(&route, &method, status, took_ms);
    let headers = response.headers_mut();
    // Invariant: the server generated the id, or has checked that it contains only plain characters.
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, id);
    }
    if let Ok(took) = HeaderValue::from_str(&format!("{:.3}", took_ms as f64 / 1e3)) {
        headers.insert(PROCESS_TIME, took);
    }
    headers.entry("x-content-type-options").or_insert(HeaderValue::from_static("nosniff"));
    headers.entry("referrer-policy").or_insert(HeaderValue::from_static("no-referrer"));
    response
}

/// Returns the id from the client's header if the id is short and has only plain characters.
fn chosen(request: &Request) -> Option<String> {
    let id = request.headers().get(REQUEST_ID)?.to_str().ok()?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    (!id.is_empty() && id.len() <= ID_MAX_BYTES && id.bytes().all(plain)).then(|| id.to_owned())
}
