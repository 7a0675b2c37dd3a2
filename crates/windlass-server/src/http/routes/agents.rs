//! `/agents` and `/models`: the configured agent and the configured models.
//!
//! There is one agent. Its digest shows whether new runs are pinned to the same definition as earlier runs.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use windlass::AgentConfig;
use windlass::machine::{Digest, Mode, ModelName};

use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::etag::{ETag, IfNoneMatch, Seen};
use crate::http::input::Path;
use crate::http::page::Page;
use crate::http::problem::Problem;

pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(list)).routes(routes!(one)).routes(routes!(models))
}

/// An agent.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Agent {
    /// Name that a run refers to.
    #[schema(example = "default")]
    name: String,
    /// Its model, followed by the fallbacks in order.
    models: Vec<String>,
    /// System instructions, stable parts first. Absent if the caller may not start runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<Vec<String>>,
    /// Default mode of its runs: `agent`, `ask` or `plan`. Absent if the caller may not start runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "agent")]
    mode: Option<Mode>,
    /// Limits of a run. An absent value means the default.
    #[schema(value_type = Object)]
    limits: Value,
    /// Settings of the model requests.
    #[schema(value_type = Object)]
    settings: Value,
    /// Names of its tools.
    tools: Vec<String>,
    /// Digest of everything that a new run is pinned to: instructions, models, tools, settings, limits.
    digest: String,
}

/// Returns whether the caller may see the agent's instructions and mode.
fn is_whole_for(caller: &Caller) -> bool {
    caller.runs().is_ok()
}

fn shown(app: &Shared, caller: &Caller) -> Result<Agent, Problem> {
    let AgentConfig { name, models, instructions, settings, limits, mode } = &app.config.agent;
    let tools = app.engine.tools().list();
    let shapes: Vec<_> = tools.iter().map(|tool| &tool.spec).collect();
    let digest = Digest::default().chain(&(name, models, instructions, settings, limits, mode, shapes));
    Ok(Agent {
        name: name.clone(),
        models: models.iter().map(ModelName::to_string).collect(),
        instructions: is_whole_for(caller).then(|| instructions.clone()),
        mode: is_whole_for(caller).then(|| mode.unwrap_or_default()),
        limits: serde_json::to_value(limits).map_err(Problem::internal)?,
        settings: serde_json::to_value(settings).map_err(Problem::internal)?,
        tools: tools.iter().map(|tool| tool.spec.name.to_string()).collect(),
        digest: digest.to_string(),
    })
}

/// List agents
#[utoipa::path(get, path = "/agents", tag = "agents", responses((status = 200, body = Page<Agent>)))]
async fn list(State(app): State<Shared>, caller: Caller) -> Result<Json<Page<Agent>>, Problem> {
    caller.reads()?;
    Ok(Json(Page { data: vec![shown(&app, &caller)?], next_cursor: None }))
}

/// Get an agent
#[utoipa::path(get, path = "/agents/{agent}", tag = "agents",
    params(("agent" = String, Path, description = "the agent's name"), IfNoneMatch),
    responses((status = 200, body = Agent)))]
async fn one(
    State(app): State<Shared>,
    caller: Caller,
    seen: Seen,
    Path(agent): Path<String>,
) -> Result<Response, Problem> {
    caller.reads()?;
    if agent != app.config.agent.name {
        return Err(Problem::not_found(format!("agent `{agent}`")));
    }
    let agent = shown(&app, &caller)?;
    let tag = ETag::strong(&("agent", &agent.digest, is_whole_for(&caller)));
    seen.answer(&tag, async { Ok(agent) }).await
}

/// A model.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Model {
    /// Name as `provider/model`.
    name: String,
    /// Whether it can be called with the current configuration.
    available: bool,
    /// Why it cannot be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Maximum size of prompt and output together, in tokens; null if unknown.
    context_tokens: Option<u64>,
    /// Maximum output, in tokens.
    max_output_tokens: Option<u64>,
    /// Whether it supports tool calls.
    tool_calls: Option<bool>,
    /// Whether it supports output constrained by a JSON schema.
    structured_output: Option<bool>,
    /// Whether it supports reasoning.
    reasoning: Option<bool>,
    /// List price in US dollars per million tokens.
    #[schema(value_type = Option<Object>)]
    price: Option<Value>,
}

/// List configured models: those of the agent first, in order of preference
#[utoipa::path(get, path = "/models", tag = "agents", responses((status = 200, body = Page<Model>)))]
async fn models(State(app): State<Shared>, caller: Caller) -> Result<Json<Page<Model>>, Problem> {
    caller.reads()?;
    let all = app.config.settings.models.iter().map(|name| {
        let (info, reason) = match app.engine.model(name) {
            Ok(info) => (info, None),
            Err(error) => (Default::default(), Some(error.to_string())),
        };
        Model {
            name: name.to_string(),
            available: reason.is_none(),
            reason,
            context_tokens: info.context_tokens,
            max_output_tokens: info.max_output_tokens,
            tool_calls: info.tool_calls,
            structured_output: info.structured_output,
            reasoning: info.reasoning,
            price: info.price.and_then(|price| serde_json::to_value(price).ok()),
        }
    });
    Ok(Json(Page { data: all.collect(), next_cursor: None }))
}
