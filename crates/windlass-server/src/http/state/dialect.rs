//! Outward dialects: the interfaces of other products over the same engine, each under its own path prefix. The server
//! knows no dialect; the process that starts it registers the dialects to serve.

use async_trait::async_trait;
use axum::Router;
use http::HeaderMap;

use super::Shared;

#[async_trait]
pub trait Dialect: Send + Sync {
    /// Returns the routes of the dialect, with its prefix.
    fn routes(&self, app: &Shared) -> Router<Shared>;

    /// Returns whether the request has a valid session cookie of the dialect. The limiter counts such requests against
    /// the user, not against the address.
    async fn knows_cookie(&self, _headers: &HeaderMap, _app: &Shared) -> bool {
        false
    }
}
