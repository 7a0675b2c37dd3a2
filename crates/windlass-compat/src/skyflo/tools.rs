//! The tools offered to the agent. (SK-R3)

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde_json::{Value, json};
use windlass::mcp::Health;
use windlass_server::http::Shared;
use windlass_server::http::caller::Caller;
use windlass_server::http::problem::Problem;

/// Maximum wait in milliseconds for servers that are connecting for the first time. (SK-R11)
const WITHIN_MS: u64 = 5_000;

/// Lists each tool with its hints. A tool's tags are its server and its group on that server. If a server is
/// unreachable, returns an error instead of a partial list, like the original Skyflo server.
pub async fn list(State(app): State<Shared>, caller: Caller) -> Result<Json<Vec<Value>>, Problem> {
    caller.reads()?;
    let missing = missing(&app).await;
    if !missing.is_empty() {
        let what = format!("tool servers do not respond: {}", missing.join(", "));
        return Err(Problem::new(StatusCode::BAD_GATEWAY, "tool_server", what)
            .hint("`/api/v1/mcp/servers` shows the reason; `/api/v1/tools` still lists all tools"));
    }
    let servers = app.servers.hub.status();
    let listed = servers.iter().flat_map(|server| &server.tools).map(|tool| (tool.name.as_str(), tool));
    let listed: BTreeMap<_, _> = listed.collect();
    let told = app.engine.tools().list_in(caller.workspace()).into_iter().map(|tool| {
        let name = tool.spec.name.as_str();
        let known = listed.get(name);
        let title = known.and_then(|known| known.title.as_deref()).unwrap_or(name);
        let tag = known.and_then(|known| known.tag.as_deref());
        let tags: Vec<&str> = tool.server.as_deref().into_iter().chain(tag).collect();
        json!({"name": name, "title": title, "annotations": tool.spec.annotations, "tags": tags})
    });
    Ok(Json(told.collect()))
}

/// Returns the enabled tool servers that do not respond.
pub async fn missing(app: &Shared) -> Vec<String> {
    app.servers.hub.settled(WITHIN_MS).await;
    let away = |health: &Health| match health {
        Health::Ready { .. } | Health::Disabled => false,
        Health::Starting | Health::Unavailable { .. } | Health::NeedsSignIn { .. } => true,
    };
    let servers = app.servers.hub.status().into_iter();
    servers.filter(|server| away(&server.health)).map(|server| server.name).collect()
}
