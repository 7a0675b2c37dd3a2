//! Outward dialects, as the server sees them: other products' interfaces over the same engine, each under a prefix of its
//! own. The server knows none of them: whoever starts it registers those that it serves.

use async_trait::async_trait;
use axum::Router;
use http::HeaderMap;

use super::Shared;

/// An outward dialect.
#[async_trait]
pub trait Dialect: Send + Sync {
    /// Its routes, with their prefix.
    fn routes(&self, app: &Shared) -> Router<Shared>;

    /// Whether its own session cookie is that of a user. Requests with one count for the user and not for the address.
    async fn knows_cookie(&self, _headers: &HeaderMap, _app: &Shared) -> bool {
        false
    }
}
