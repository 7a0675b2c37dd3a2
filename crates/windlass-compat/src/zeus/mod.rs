//! The interface of Zeus, under `/zeus`: a message starts a run or is queued behind one, and a resume answers what its
//! calls wait for. Both answer with a stream of events.
//!
//! A client may bring tool servers along, for one run, and where the settings allow it a model's endpoint with its key.
//! What else it would bring (sandboxes, memory) is refused by name, never ignored.

mod body;
mod calls;
mod confirm;
#[cfg(test)]
mod golden;
mod guard;
mod invoke;
mod model;
mod resume;
mod speak;
mod tools;
mod word;

use async_trait::async_trait;
use axum::Router;
use axum::routing::post;
use windlass_server::http::Shared;
use windlass_server::http::state::dialect::Dialect;

/// The dialect.
pub struct ZeusDialect;

#[async_trait]
impl Dialect for ZeusDialect {
    fn routes(&self, _app: &Shared) -> Router<Shared> {
        routes()
    }
}

/// The routes.
fn routes() -> Router<Shared> {
    Router::new()
        .route("/zeus/api/agent/invoke", post(invoke::invoke))
        .route("/zeus/api/agent/resume", post(resume::resume))
}
