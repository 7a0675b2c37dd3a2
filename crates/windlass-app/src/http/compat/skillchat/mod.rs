//! The interface of a chat with skills, under `/skillchat`: an answer at once or as a stream, questions to the person who
//! chats, and their sessions.
//!
//! The tutor's documents, reminders and accounts are not here: they answer 501.

mod chat;
mod checkpoint;
mod error;
#[cfg(test)]
mod golden;
mod sessions;
mod speak;

use axum::routing::{any, get, post};
use axum::{Json, Router, middleware};
use serde_json::json;

use crate::http::Shared;

/// The routes.
pub fn routes() -> Router<Shared> {
    let api = Router::new()
        .route("/ai/chat", post(chat::chat))
        .route("/ai/chat/stream", post(chat::stream))
        .route("/ai/chat/hitl-response", post(chat::respond_to))
        .route("/ai/initial-greeting", post(chat::greeting))
        .route("/sessions", get(sessions::list))
        .route("/sessions/{session}", get(sessions::one))
        .route("/sessions/{session}/commit", post(sessions::commit));
    let tutors_own =
        ["/ai/reminders", "/ai/reminders/{*rest}", "/documents", "/documents/{*rest}", "/auth/{*rest}"];
    let api = tutors_own.into_iter().fold(api, |api, path| api.route(path, any(error::missing)));
    Router::new()
        .route("/skillchat/health", get(async || Json(json!({"status": "ok", "service": "windlass"}))))
        .nest("/skillchat/api", api)
        .layer(middleware::map_response(error::shaped))
}
