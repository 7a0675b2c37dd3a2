//! AG-UI 1.0 under `/agui`: `POST` a run input and stream its events, or `GET` a thread to reconnect.
//!
//! The journal is the history. Of a client's messages, the server reads only the user's newest, and reads it only once.
//! Client tools, state and context are not passed to the agent; a `CUSTOM` event reports that.

mod attach;
mod feed;
#[cfg(test)]
mod golden;
mod history;
mod input;
mod interrupt;
mod message;
mod notes;
mod reply;
mod run;
mod speak;
mod thread;
mod word;

use std::sync::Arc;

use async_trait::async_trait;
use axum::routing::{get, post};
use axum::{Extension, Router};
#[cfg(any(fuzzing, feature = "testing"))]
pub use input::RunInput;
use windlass_server::http::Shared;
use windlass_server::http::state::dialect::Dialect;

use crate::folds::Folds;

pub struct AguiDialect;

#[async_trait]
impl Dialect for AguiDialect {
    fn routes(&self, _app: &Shared) -> Router<Shared> {
        routes()
    }
}

/// Cached folds of the threads that clients use.
type Histories = Folds<history::History>;

fn routes() -> Router<Shared> {
    let histories = Arc::<Histories>::default();
    Router::new()
        .route("/agui", post(run::run))
        .route("/agui/threads/{thread}", get(attach::attach))
        .route("/agui/{agent}", post(run::run_agent))
        .layer(Extension(histories))
}
