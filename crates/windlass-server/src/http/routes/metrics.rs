//! `/metrics`: metrics of the server and its engine, as Prometheus text.
//!
//! Available to programs on this machine, to administrators, and to requests with the scrape token.

use axum::Router;
use axum::extract::{FromRequestParts, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header;

use crate::http::Shared;
use crate::http::caller::Caller;
use crate::http::middleware::peer::Client;
use crate::http::problem::Problem;
use crate::http::state::origins::host;

const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Builds the route. The API document does not include it, because it serves monitoring systems.
pub fn routes() -> Router<Shared> {
    Router::new().route("/metrics", get(metrics))
}

async fn metrics(State(app): State<Shared>, request: Request) -> Result<Response, Problem> {
    let (mut parts, _) = request.into_parts();
    let by_own_name = host(&parts.uri, &parts.headers).is_some_and(|host| app.origins.is_loopback(&host));
    let is_local = by_own_name && parts.extensions.get::<Client>().is_some_and(|client| client.local);
    if !is_local && !app.has_scrape_token(&parts.headers) {
        Caller::from_request_parts(&mut parts, &app).await?.administers()?;
    }
    let text = app.monitoring.metrics.text(&app.engine).await?;
    Ok(([(header::CONTENT_TYPE, MEDIA_TYPE), (header::CACHE_CONTROL, "no-store")], text).into_response())
}
