//! Whether the server lives, and its store and its tool servers answer. Open to all, as there. (SK-R11)

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde_json::{Value, json};
use windlass_server::http::Shared;

use super::tools::missing;

/// The process answers.
pub async fn live() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

/// The store answers, or does not: told with 200 either way, as there. Why stands in the log.
pub async fn database(State(app): State<Shared>) -> Json<Value> {
    match app.engine.records().changes(&[]).await {
        Ok(_) => Json(json!({"status": "ok", "database": "connected"})),
        Err(error) => {
            tracing::warn!(%error, "the store does not answer");
            Json(json!({"status": "error", "database": "disconnected", "error": "the store does not answer"}))
        }
    }
}

/// The tool servers answer, or not all of them do. Which ones and why stands in the log.
pub async fn mcp(State(app): State<Shared>) -> (StatusCode, Json<Value>) {
    match missing(&app).await.as_slice() {
        [] => (StatusCode::OK, Json(json!({"status": "ok", "mcp": "connected"}))),
        missing => {
            tracing::warn!(servers = ?missing, "tool servers do not answer");
            let error = format!("{} tool servers do not answer", missing.len());
            let told = json!({"status": "degraded", "mcp": "disconnected", "error": error});
            (StatusCode::SERVICE_UNAVAILABLE, Json(told))
        }
    }
}
