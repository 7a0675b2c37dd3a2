//! The OpenAPI document, and a page that renders it without an external server.
//!
//! The document is the checked-in file `docs/openapi.json`, so that no server assembles it at startup. A test compares
//! the file with the routes, and explains how to renew the file. Outward dialects are not included. The document is the
//! same for every build: without the feature `openid`, the provider routes return 404, as they do for a provider that
//! is not configured.

// The document contains the routes of all features.
#[cfg(all(test, feature = "openid"))]
mod document;

use std::sync::LazyLock;

use axum::Router;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use http::{HeaderValue, StatusCode, header};

use crate::http::Shared;
use crate::http::etag::{ETag, Seen};

/// The document, with one operation or schema per line.
const DOCUMENT: &str = include_str!("docs/openapi.json");

/// The entity tag of the document, computed by the first request.
static VERSION: LazyLock<ETag> = LazyLock::new(|| ETag::strong(&DOCUMENT));

/// Content security policy: allows only our own scripts, and connections only to this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Serves the document and its page.
pub fn routes() -> Router<Shared> {
    Router::new()
        .route("/api/v1/openapi.json", get(document))
        .route("/api/docs", get(async || page(Html(include_str!("docs/page.html")))))
        .route("/api/docs/page.js", get(async || asset("text/javascript", include_str!("docs/page.js"))))
        .route("/api/docs/page.css", get(async || asset("text/css", include_str!("docs/page.css"))))
}

async fn document(seen: Seen) -> Response {
    if seen.knows(&VERSION) {
        return VERSION.on(StatusCode::NOT_MODIFIED);
    }
    VERSION.on(([(header::CONTENT_TYPE, "application/json")], DOCUMENT))
}

fn page(content: impl IntoResponse) -> Response {
    let mut response = content.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn asset(media_type: &'static str, text: &'static str) -> Response {
    page((StatusCode::OK, [(header::CONTENT_TYPE, media_type)], text))
}
