//! placeholder
use crate::http::Shared;
use axum::Router;
pub fn routes() -> Router<Shared> {
    Router::new()
}
