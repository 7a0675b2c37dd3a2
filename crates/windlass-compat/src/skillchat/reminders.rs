//! Reminders that are due. Only the tutor's own tools set reminders, so there never is one; its clients ask for them all the
//! same. (WT-E4)

use axum::Json;
use serde_json::Value;
use windlass_server::http::caller::Caller;
use windlass_server::http::input::Path;
use windlass_server::http::problem::Problem;

/// The reminders of a session that are due.
pub async fn list(caller: Caller) -> Result<Json<Vec<Value>>, Problem> {
    caller.reads()?;
    Ok(Json(Vec::new()))
}

/// Acknowledges a reminder.
pub async fn acknowledge(caller: Caller, Path(reminder): Path<String>) -> Result<(), Problem> {
    caller.runs()?;
    Err(Problem::not_found(format!("reminder `{reminder}`")))
}
