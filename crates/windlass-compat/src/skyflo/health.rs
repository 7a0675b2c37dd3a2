//! Health of the process, its store and its tool servers. The routes need no credential, as in the original. (SK-R11)

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde_json::{Value, json};
use windlass_server::http::Shared;

use super::tools::missing;

pub async fn live() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

/// Whether the store responds. The status is 200 in both cases, as in the original; the log contains the reason.
pub async fn database(State(app): State<Shared>) -> Json<Value> {
    match app.engine.records().changes(&[]).await {
        Ok(_) => Json(json!({"status": "ok", "database": "connected"})),
        Err(error) => {
            tracing::warn!(%error, "the store does not respond");
            Json(
                json!({"status": "error", "database": "disconnected", "error": "the store does not respond"}),
            )
        }
    }
}

/// Whether all tool servers respond. The log names the servers that do not, with the reason.
pub async fn mcp(State(app): State<Shared>) -> (StatusCode, Json<Value>) {
    match missing(&app).await.as_slice() {
        [] => (StatusCode::OK, Json(json!({"status": "ok", "mcp": "connected"}))),
        missing => {
            tracing::warn!(servers = ?missing, "tool servers do not respond");
            let error = format!("{} tool servers do not respond", missing.len());
            let told = json!({"status": "degraded", "mcp": "disconnected", "error": error});
            (StatusCode::SERVICE_UNAVAILABLE, Json(told))
        }
    }
}
