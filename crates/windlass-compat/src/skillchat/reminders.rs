//! Due reminders. Only the tutor's tools set reminders, so the list is always empty;
//! clients request the list anyway. (WT-E4)

use axum::Json;
use serde_json::Value;
use windlass_server::http::caller::Caller;
use windlass_server::http::input::Path;
use windlass_server::http::problem::Problem;

pub async fn list(caller: Caller) -> Result<Json<Vec<Value>>, Problem> {
    caller.reads()?;
    Ok(Json(Vec::new()))
}

pub async fn acknowledge(caller: Caller, Path(reminder): Path<String>) -> Result<(), Problem> {
    caller.runs()?;
    Err(Problem::not_found(format!("reminder `{reminder}`")))
}
