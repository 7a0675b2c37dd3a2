//! `/mcp/servers/{server}/prompts`: texts that servers have ready for people, listed and filled in.
//!
//! Whoever sees a server's tools sees its prompts. Nothing is sent to a model: what comes of one, its reader uses.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass::mcp::McpPrompt;

use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::input::{Body, Path};
use crate::http::middleware::idempotency::IdempotencyKey;
use crate::http::problem::Problem;
use crate::servers::{PromptError, PromptMessage};

/// The routes.
pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(list)).routes(routes!(fill))
}

/// The prompts of a server.
#[derive(Debug, Serialize, ToSchema)]
struct Prompts {
    /// In the server's order.
    #[schema(max_items = 1000)]
    data: Vec<Prompt>,
}

/// A text that a server has ready.
#[derive(Debug, Serialize, ToSchema)]
struct Prompt {
    /// Its name.
    name: String,
    /// Its title for people.
    title: Option<String>,
    /// What it is for.
    description: Option<String>,
    /// What is filled in.
    arguments: Vec<Argument>,
}

/// What is filled into a prompt.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PromptArgument)]
struct Argument {
    /// Its name.
    name: String,
    /// What it is.
    description: Option<String>,
    /// Whether the prompt makes no sense without it.
    required: bool,
}

/// What a prompt is filled with.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PromptFilling, example = json!({"arguments": {"city": "Oslo"}}))]
struct Filling {
    /// Each argument by its name.
    #[serde(default)]
    arguments: BTreeMap<String, String>,
}

/// A prompt that was filled in.
#[derive(Debug, Serialize, ToSchema)]
struct FilledPrompt {
    /// What is said, in this order.
    messages: Vec<PromptMessage>,
}

impl From<McpPrompt> for Prompt {
    fn from(prompt: McpPrompt) -> Self {
        let arguments = prompt.arguments.into_iter().map(|argument| Argument {
            name: argument.name,
            description: argument.description,
            required: argument.required,
        });
        let arguments = arguments.collect();
        Self { name: prompt.name, title: prompt.title, description: prompt.description, arguments }
    }
}

/// The prompts of a server
#[utoipa::path(get, path = "/mcp/servers/{server}/prompts", tag = "mcp",
    params(("server" = String, Path, description = "the server's name")),
    responses((status = 200, body = Prompts)))]
async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Path(server): Path<String>,
) -> Result<Json<Prompts>, Problem> {
    caller.reads()?;
    let prompts = app.servers.hub.prompts(&server).await?;
    Ok(Json(Prompts { data: prompts.into_iter().map(Prompt::from).collect() }))
}

/// Fills a prompt of a server in
///
/// It changes nothing, and no model sees it. A prompt that wants input in the middle is refused.
#[utoipa::path(post, path = "/mcp/servers/{server}/prompts/{prompt}", tag = "mcp",
    params(("server" = String, Path, description = "the server's name"),
        ("prompt" = String, Path, description = "the prompt's name"), IdempotencyKey),
    request_body = Filling, responses((status = 200, body = FilledPrompt)))]
async fn fill(
    State(app): State<Shared>,
    caller: Caller,
    Path((server, prompt)): Path<(String, String)>,
    Body(Filling { arguments }): Body<Filling>,
) -> Result<Json<FilledPrompt>, Problem> {
    caller.reads()?;
    Ok(Json(FilledPrompt { messages: app.servers.prompt(&server, &prompt, arguments).await? }))
}

impl From<PromptError> for Problem {
    fn from(error: PromptError) -> Self {
        let said = error.to_string();
        match error {
            PromptError::Mcp(error) => error.into(),
            PromptError::Unknown { .. } => Self::new(StatusCode::NOT_FOUND, "not_found", said),
            PromptError::Missing { .. } | PromptError::Surplus { .. } => Self::invalid(said),
        }
    }
}
