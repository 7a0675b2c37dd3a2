//! The interface of Zeus, under `/zeus`: a message starts a run or is queued behind one, and a resume answers its
//! waiting calls. Both respond with a stream of events.
//!
//! A client may add tool servers for one run and, if the settings allow it, a model endpoint with its key. Requests
//! with other additions (sandboxes, memory) are rejected, and the error names the addition.

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

pub struct ZeusDialect;

#[async_trait]
impl Dialect for ZeusDialect {
    fn routes(&self, _app: &Shared) -> Router<Shared> {
        routes()
    }
}

fn routes() -> Router<Shared> {
    Router::new()
        .route("/zeus/api/agent/invoke", post(invoke::invoke))
        .route("/zeus/api/agent/resume", post(resume::resume))
}
