//! `/agents` and `/models`: who can be given a task, and the models at hand.
//!
//! One agent is configured. Its digest says whether new runs are pinned to the same as before.

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

/// The routes.
pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(list)).routes(routes!(one)).routes(routes!(models))
}

/// An agent.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Agent {
    /// The name that a run names it by.
    #[schema(example = "default")]
    name: String,
    /// Its model, then the fallbacks tried in order.
    models: Vec<String>,
    /// What it is told before each task, stable parts first; absent for whoever may not start a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<Vec<String>>,
    /// What its runs may do at all, where nobody chooses: `agent`, `ask` or `plan`; absent for whoever may not start a
    /// run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "agent")]
    mode: Option<Mode>,
    /// What a run of it may use at most; figures that are absent are the usual ones.
    #[schema(value_type = Object)]
    limits: Value,
    /// How its model is asked.
    #[schema(value_type = Object)]
    settings: Value,
    /// Names of its tools.
    tools: Vec<String>,
    /// Digest of all that a new run of it is pinned to: instructions, models, tools, settings, limits.
    digest: String,
}

/// Whether an agent is shown with what it is told.
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

/// Agents that can be given a task
#[utoipa::path(get, path = "/agents", tag = "agents", responses((status = 200, body = Page<Agent>)))]
async fn list(State(app): State<Shared>, caller: Caller) -> Result<Json<Page<Agent>>, Problem> {
    caller.reads()?;
    Ok(Json(Page { data: vec![shown(&app, &caller)?], next_cursor: None }))
}

/// One agent
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
    /// `provider/model`.
    name: String,
    /// Whether it can be called as things are configured.
    available: bool,
    /// Why it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Prompt and output together, in tokens; null where unknown.
    context_tokens: Option<u64>,
    /// The largest output, in tokens.
    max_output_tokens: Option<u64>,
    /// Whether it calls tools.
    tool_calls: Option<bool>,
    /// Whether it can be held to a JSON schema.
    structured_output: Option<bool>,
    /// Whether it reasons.
    reasoning: Option<bool>,
    /// List price in US dollars per million tokens.
    #[schema(value_type = Option<Object>)]
    price: Option<Value>,
}

/// Models that are configured: those of the agent, first choice first
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
