//! The interface of a chat with skills, under `/skillchat`: chat with one body or a stream, questions to the person,
//! and sessions.
//!
//! The tutor's documents, study plans and mail are not implemented: their routes respond with 501 and name a
//! replacement. The server has no reminders, so the list of due reminders is always empty.

mod chat;
mod checkpoint;
mod error;
#[cfg(test)]
mod golden;
mod reminders;
mod sessions;
mod sign_in;
mod speak;

use async_trait::async_trait;
use axum::middleware::{from_fn_with_state, map_response};
use axum::routing::{any, get, patch, post};
use axum::{Json, Router};
use serde_json::json;

use self::sign_in::BodyCheck;
use http::HeaderMap;
use windlass_server::http::Shared;
use windlass_server::http::state::dialect::Dialect;

/// Paths of the tutor's other features, each with its replacement in this server.
const TUTORS_OWN: [(&str, &str); 11] = [
    ("/documents", "upload files with `PUT /api/v1/files/{name}`"),
    ("/auth", "sign in with `POST /skillchat/api/auth/login`"),
    ("/ai/summarize", "ask for a summary in a message"),
    ("/ai/generate-flashcards", "ask for flashcards in a message"),
    ("/flashcards", "ask for flashcards in a message"),
    ("/subjects", "name the subject in a message"),
    ("/courses", "name the course in a message"),
    ("/study", "read `GET /api/v1/usage` for what runs used"),
    ("/reminders", "ask the agent to continue at a later time; it has the tool `Sleep`"),
    ("/notes", "have the agent keep notes in its files: `GET /api/v1/threads/{thread}/files`"),
    ("/gmail", "connect a mail server under `[mcp]`"),
];

pub struct SkillchatDialect;

#[async_trait]
impl Dialect for SkillchatDialect {
    fn routes(&self, app: &Shared) -> Router<Shared> {
        routes(app)
    }

    async fn knows_cookie(&self, headers: &HeaderMap, app: &Shared) -> bool {
        sign_in::is_known(headers, app).await
    }
}

fn routes(app: &Shared) -> Router<Shared> {
    // Clients of the original begin with one of these requests, without a credential.
    let admitting = |check| from_fn_with_state((app.clone(), check), sign_in::admit_guest);
    let chats = Router::new()
        .route("/ai/chat", post(chat::chat))
        .route("/ai/chat/stream", post(chat::stream))
        .layer(admitting(Some(chat::check as BodyCheck)));
    let greeting = post(chat::greeting).layer(admitting(None));
    let api = Router::new()
        .merge(chats)
        .route("/ai/initial-greeting", greeting)
        .route("/ai/chat/hitl-response", post(chat::respond_to))
        .route("/ai/reminders", get(reminders::list))
        .route("/ai/reminders/{reminder}/ack", patch(reminders::acknowledge))
        .route("/sessions", get(sessions::list))
        .route("/sessions/{session}", get(sessions::one))
        .route("/sessions/{session}/commit", post(sessions::commit))
        .route("/auth/login", post(sign_in::login))
        .route("/auth/register", post(sign_in::register))
        .route("/auth/logout", post(sign_in::logout));
    let api = TUTORS_OWN.into_iter().fold(api, |api, (path, instead)| {
        let missing = move || async move { error::missing().hint(instead) };
        api.route(path, any(missing)).route(&format!("{path}/{{*rest}}"), any(missing))
    });
    Router::new()
        .route("/skillchat/health", get(async || Json(json!({"status": "ok", "service": "windlass"}))))
        .nest("/skillchat/api", api.layer(from_fn_with_state(app.clone(), sign_in::by_cookie)))
        .layer(map_response(error::shaped))
}
