//! `/mcp/servers/{server}/prompts`: lists the prompts of MCP servers and fills them in.
//!
//! Users who see a server's tools also see its prompts. The server returns a filled prompt only to the client, and
//! sends it to no model.

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

/// A prompt template of a server.
#[derive(Debug, Serialize, ToSchema)]
struct Prompt {
    /// Name of the prompt.
    name: String,
    /// Title for people.
    title: Option<String>,
    /// Description of the prompt.
    description: Option<String>,
    /// Arguments of the template.
    arguments: Vec<Argument>,
}

/// An argument of a prompt.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PromptArgument)]
struct Argument {
    /// Name of the argument.
    name: String,
    /// Description of the argument.
    description: Option<String>,
    /// Whether the argument is required.
    required: bool,
}

/// Arguments for a prompt.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PromptFilling, example = json!({"arguments": {"city": "Oslo"}}))]
struct Filling {
    /// Values by argument name.
    #[serde(default)]
    arguments: BTreeMap<String, String>,
}

/// A prompt with its arguments filled in.
#[derive(Debug, Serialize, ToSchema)]
struct FilledPrompt {
    /// Messages of the prompt, in order.
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

/// List the prompts of an MCP server
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

/// Fill in a prompt of an MCP server
///
/// The request changes nothing, and no model receives the prompt. A prompt that requests further input is rejected.
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
