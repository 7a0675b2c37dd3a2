//! The interface of the Skyflo engine, under `/skyflo`, so that its Command Center works unchanged.
//!
//! Paths and shapes are those of its `/api/v1`; an error has its words in `detail`, as there. Integrations are not here.

mod analytics;
mod call;
mod calls;
mod chat;
mod conversations;
mod date;
mod feed;
mod find;
#[cfg(test)]
mod golden;
mod health;
mod messages;
mod reply;
mod speak;
mod tools;
mod word;

use axum::Router;
use axum::routing::{MethodRouter, get, post};

use crate::http::Shared;

/// The routes.
pub fn routes() -> Router<Shared> {
    let all: Vec<(&str, MethodRouter<Shared>)> = vec![
        ("/health", get(health::live)),
        ("/health/database", get(health::database)),
        ("/agent/chat", post(chat::chat)),
        ("/agent/approvals/{call}", post(chat::decide)),
        ("/agent/stop", post(chat::stop)),
        ("/agent/tools", get(tools::list)),
        ("/conversations", post(conversations::add).get(conversations::list)),
        (
            "/conversations/{conversation}",
            get(conversations::one).patch(conversations::change).delete(conversations::delete),
        ),
        ("/analytics/metrics", get(analytics::metrics)),
    ];
    // The engine that is spoken to here takes each path with a slash at its end, too.
    let inner = all.into_iter().fold(Router::new(), |router, (path, methods)| {
        router.route(&format!("{path}/"), methods.clone()).route(path, methods)
    });
    Router::new().nest("/skyflo/api/v1", inner)
}
