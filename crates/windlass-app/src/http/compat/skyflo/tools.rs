//! The tools that the agent is offered. (SK-R3)

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::http::Shared;
use crate::http::caller::Caller;
use crate::http::problem::Problem;

/// Each tool with its hints; the tag is the server that it belongs to.
pub async fn list(State(app): State<Shared>, caller: Caller) -> Result<Json<Vec<Value>>, Problem> {
    caller.reads()?;
    let told = app.engine.tools().into_iter().map(|tool| {
        let name = tool.spec.name.as_str();
        let tags: Vec<&str> = tool.server.as_deref().into_iter().collect();
        json!({"name": name, "title": name, "annotations": tool.spec.annotations, "tags": tags})
    });
    Ok(Json(told.collect()))
}
