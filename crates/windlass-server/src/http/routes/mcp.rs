//! `/mcp/servers`: the MCP servers that provide tools, their state and their logs.
//!
//! All users see the servers, because all users can use their tools. Only operators, the administrators of the default
//! workspace, can change them. No response contains secrets.

mod prompts;
pub mod sign_in;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;
use windlass::mcp::{Health, McpError, ServerStatus};

use crate::account::audit::Note;
use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::input::{Body, Path};
use crate::http::middleware::idempotency::IdempotencyKey;
use crate::http::operator::{Operator, is_operator};
use crate::http::problem::Problem;
use crate::servers::{ChangeError, Draft};

pub fn routes() -> ApiRouter {
    ApiRouter::new()
        .routes(routes!(list, add))
        .routes(routes!(one, remove))
        .routes(routes!(reconnect))
        .routes(routes!(log))
        .merge(prompts::routes())
}

/// The MCP servers.
#[derive(Debug, Serialize, ToSchema)]
struct Servers {
    /// Sorted by name.
    data: Vec<Server>,
}

/// An MCP server.
#[derive(Debug, Serialize, ToSchema)]
struct Server {
    /// Name of the server.
    name: String,
    /// Connection state.
    state: Standing,
    /// When the state began, in milliseconds since the Unix epoch.
    since: Option<u64>,
    /// Error that made the server unavailable. Only operators see the details, because they may describe the internal
    /// network.
    last_error: Option<String>,
    /// Time of the next connection attempt, in milliseconds since the Unix epoch.
    retry_at: Option<u64>,
    /// Protocol revision of the connection.
    revision: Option<String>,
    /// Name and version that the server reports.
    software: Option<String>,
    /// Whether the annotations of its tools are trusted.
    trusted: bool,
    /// Whether Windlass refuses to start without it.
    required: bool,
    /// Whether an operator has signed in to the server, on behalf of all users.
    signed_in: bool,
    /// Where the server is configured.
    source: Source,
    /// Its tools at the last listing.
    tools: Vec<ServerTool>,
    /// Its tools that cannot be used.
    left_out: Vec<LeftOut>,
}

/// Connection state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Standing {
    /// Connecting for the first time.
    Starting,
    /// Connected.
    Connected,
    /// Unavailable.
    Down,
    /// Waiting for an operator to sign in.
    NeedsSignIn,
    /// Disabled in the configuration.
    Disabled,
}

/// Where a server is configured.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Source {
    /// In the settings.
    Settings,
    /// Added over the API.
    Added,
}

/// A tool of a server.
#[derive(Debug, Serialize, ToSchema)]
struct ServerTool {
    /// Name that models use.
    name: String,
    /// Name that the server uses.
    remote: String,
    /// Title for people.
    title: Option<String>,
    /// Toolset that it belongs to.
    tag: Option<String>,
}

/// A tool that cannot be used.
#[derive(Debug, Serialize, ToSchema)]
struct LeftOut {
    /// Name that the server uses.
    tool: String,
    /// Reason.
    why: String,
}

/// The log of a server.
#[derive(Debug, Serialize, ToSchema)]
struct Lines {
    /// Most recent lines of the server's output and of its connection changes; the newest last.
    #[schema(max_items = 500)]
    lines: Vec<String>,
}

impl Server {
    async fn of(status: ServerStatus, app: &Shared, caller: &Caller) -> Self {
        let signed_in = app.servers.hub.is_signed_in(&status.name).await;
        let (state, since, last_error, retry_at) = match status.health {
            Health::Starting => (Standing::Starting, None, None, None),
            Health::Ready { since } => (Standing::Connected, Some(since.0), None, None),
            Health::Unavailable { why, since, retry_at } => {
                let why = if is_operator(caller) { why } else { "the server cannot be reached".to_owned() };
                (Standing::Down, Some(since.0), Some(why), Some(retry_at.0))
            }
            Health::NeedsSignIn { since } => (Standing::NeedsSignIn, Some(since.0), None, None),
            Health::Disabled => (Standing::Disabled, None, None, None),
        };
        let source = if app.servers.is_configured(&status.name) { Source::Settings } else { Source::Added };
        let tools = status.tools.into_iter().map(|tool| ServerTool {
            name: tool.name,
            remote: tool.remote,
            title: tool.title,
            tag: tool.tag,
        });
        let left_out = status.left_out.into_iter().map(|it| LeftOut { tool: it.tool, why: it.why });
        Self {
            name: status.name,
            state,
            since,
            last_error,
            retry_at,
            revision: status.protocol,
            software: status.software,
            trusted: status.trusted,
            required: status.required,
            signed_in,
            source,
            tools: tools.collect(),
            left_out: left_out.collect(),
        }
    }
}

/// List MCP servers
#[utoipa::path(get, path = "/mcp/servers", tag = "mcp", responses((status = 200, body = Servers)))]
async fn list(State(app): State<Shared>, caller: Caller) -> Result<Json<Servers>, Problem> {
    caller.reads()?;
    let all = app.servers.hub.status().into_iter();
    let data = futures::future::join_all(all.map(|status| Server::of(status, &app, &caller))).await;
    Ok(Json(Servers { data }))
}

/// Add an MCP server
///
/// Windlass connects to it immediately; its state shows the result. An MCP server that is a local program can be added
/// only if the settings allow it (`[server] mcp_commands`).
#[utoipa::path(post, path = "/mcp/servers", tag = "mcp", params(IdempotencyKey), request_body = Draft,
    responses((status = 201, body = Server)))]
async fn add(
    State(app): State<Shared>,
    Operator(caller): Operator,
    Body(draft): Body<Draft>,
) -> Result<(StatusCode, Json<Server>), Problem> {
    let name = draft.name.clone();
    // Write only the host and the command into the audit log. A URL's query and the arguments may contain secrets.
    let host = draft.url.as_deref().and_then(|url| windlass::outbound::Url::parse(url).ok());
    let way = host.and_then(|url| url.host_str().map(str::to_owned)).or_else(|| draft.command.clone());
    let note = Note::by(&caller.0, "mcp.added").on(&name).with("way", way).with("trusted", draft.trusted);
    app.servers.add(draft, &app.accounts, note).await?;
    let status = app.servers.hub.server(&name)?;
    Ok((StatusCode::CREATED, Json(Server::of(status, &app, &caller).await)))
}

/// Get an MCP server
#[utoipa::path(get, path = "/mcp/servers/{server}", tag = "mcp",
    params(("server" = String, Path, description = "the server's name")),
    responses((status = 200, body = Server)))]
async fn one(
    State(app): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Server>, Problem> {
    caller.reads()?;
    Ok(Json(Server::of(app.servers.hub.server(&name)?, &app, &caller).await))
}

/// Remove an MCP server that was added over the API, with all data stored for it
#[utoipa::path(delete, path = "/mcp/servers/{server}", tag = "mcp",
    params(("server" = String, Path, description = "the server's name")),
    responses((status = 204)))]
async fn remove(
    State(app): State<Shared>,
    Operator(caller): Operator,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    let note = Note::by(&caller.0, "mcp.removed").on(&name);
    app.servers.remove(&name, &app.accounts, note).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Reconnect to an MCP server immediately; a local command is restarted
#[utoipa::path(post, path = "/mcp/servers/{server}/reconnect", tag = "mcp",
    params(("server" = String, Path, description = "the server's name"), IdempotencyKey),
    responses((status = 202, body = Server)))]
async fn reconnect(
    State(app): State<Shared>,
    Operator(caller): Operator,
    Path(name): Path<String>,
) -> Result<(StatusCode, Json<Server>), Problem> {
    app.servers.hub.server(&name)?;
    app.accounts.record(Note::by(&caller.0, "mcp.reconnected").on(&name)).await?;
    app.servers.hub.restart(&name)?;
    Ok((StatusCode::ACCEPTED, Json(Server::of(app.servers.hub.server(&name)?, &app, &caller).await)))
}

/// Get the log of an MCP server
///
/// Only for operators: the output of a program may contain secrets.
#[utoipa::path(get, path = "/mcp/servers/{server}/log", tag = "mcp",
    params(("server" = String, Path, description = "the server's name")),
    responses((status = 200, body = Lines)))]
async fn log(
    State(app): State<Shared>,
    Operator(_): Operator,
    Path(name): Path<String>,
) -> Result<Json<Lines>, Problem> {
    Ok(Json(Lines { lines: app.servers.hub.logs(&name)? }))
}

impl From<ChangeError> for Problem {
    fn from(error: ChangeError) -> Self {
        let said = error.to_string();
        match error {
            ChangeError::Invalid(_) => Self::invalid(said),
            ChangeError::Command => Self::forbidden(said)
                .hint("add the server to `windlass.toml`, or set `mcp_commands = true` there"),
            ChangeError::Full => Self::conflict("full", said),
            ChangeError::Duplicate(_) => Self::conflict("duplicate", said),
            ChangeError::Settings(_) => Self::conflict("in_settings", said),
            ChangeError::Missing(_) => Self::new(StatusCode::NOT_FOUND, "not_found", said),
            ChangeError::Record(error) => error.into(),
        }
    }
}

impl From<McpError> for Problem {
    fn from(error: McpError) -> Self {
        let said = error.to_string();
        match error {
            McpError::Unknown(name) => Self::not_found(format!("server `{name}`")),
            McpError::Config { .. } => Self::invalid(said),
            McpError::Duplicate(_) => Self::conflict("duplicate", said),
            // 502: the fault is in an MCP server, not in this server.
            _ => Self::new(StatusCode::BAD_GATEWAY, "tool_server", said),
        }
    }
}
