//! Whether the server lives and its store answers. Open to all, as there. (SK-R11)

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::http::Shared;

/// The process answers.
pub async fn live() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

/// The store answers, or does not: told with 200 either way, as there. Why stands in the log.
pub async fn database(State(app): State<Shared>) -> Json<Value> {
    match app.engine.records().changes().await {
        Ok(_) => Json(json!({"status": "ok", "database": "connected"})),
        Err(error) => {
            tracing::warn!(%error, "the store does not answer");
            Json(json!({"status": "error", "database": "disconnected", "error": "the store does not answer"}))
        }
    }
}
