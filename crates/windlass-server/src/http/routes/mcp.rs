//! `/mcp/servers`: the servers that tools come from, how they are, and what they say.
//!
//! Everybody sees them, because their tools are everybody's; what changes them is for the administrators of the first
//! workspace, who run the store. Secrets go in and never come out.

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

/// The routes.
pub fn routes() -> ApiRouter {
    ApiRouter::new()
        .routes(routes!(list, add))
        .routes(routes!(one, remove))
        .routes(routes!(reconnect))
        .routes(routes!(log))
        .merge(prompts::routes())
}

/// The servers.
#[derive(Debug, Serialize, ToSchema)]
struct Servers {
    /// By name.
    data: Vec<Server>,
}

/// A server that tools come from.
#[derive(Debug, Serialize, ToSchema)]
struct Server {
    /// Its name.
    name: String,
    /// How it is.
    state: Standing,
    /// Since when, in milliseconds since the Unix epoch.
    since: Option<u64>,
    /// Why it is not there; what went wrong last. In particular for administrators of the first workspace only, because it
    /// may tell what there is inside the network.
    last_error: Option<String>,
    /// When it is tried again.
    retry_at: Option<u64>,
    /// The revision of the protocol that is spoken with it.
    revision: Option<String>,
    /// Its own name and version.
    software: Option<String>,
    /// Whether the hints of its tools are believed.
    trusted: bool,
    /// Whether nothing starts without it.
    required: bool,
    /// Whether somebody has signed in there for all who use it here.
    signed_in: bool,
    /// Where it is written down.
    source: Source,
    /// Its tools, as they were last seen.
    tools: Vec<ServerTool>,
    /// Its tools that cannot be used.
    left_out: Vec<LeftOut>,
}

/// How a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Standing {
    /// It is being reached for the first time.
    Starting,
    /// It answers.
    Connected,
    /// It does not.
    Down,
    /// Somebody has to sign in first.
    NeedsSignIn,
    /// It is switched off.
    Disabled,
}

/// Where a server is written down.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Source {
    /// In the settings.
    Settings,
    /// An administrator has added it here.
    Added,
}

/// A server's tool.
#[derive(Debug, Serialize, ToSchema)]
struct ServerTool {
    /// The name that models use.
    name: String,
    /// The server's own name for it.
    remote: String,
    /// Its title for people.
    title: Option<String>,
    /// The group that it belongs to.
    tag: Option<String>,
}

/// A tool that cannot be used.
#[derive(Debug, Serialize, ToSchema)]
struct LeftOut {
    /// The server's own name for it.
    tool: String,
    /// Why.
    why: String,
}

/// What a server has said.
#[derive(Debug, Serialize, ToSchema)]
struct Lines {
    /// The last lines that it wrote for people, and when it came and went; the newest last.
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

/// The servers that tools come from
#[utoipa::path(get, path = "/mcp/servers", tag = "mcp", responses((status = 200, body = Servers)))]
async fn list(State(app): State<Shared>, caller: Caller) -> Result<Json<Servers>, Problem> {
    caller.reads()?;
    let all = app.servers.hub.status().into_iter();
    let data = futures::future::join_all(all.map(|status| Server::of(status, &app, &caller))).await;
    Ok(Json(Servers { data }))
}

/// Adds a server
///
/// It is reached at once; how that goes, its state says. A program is started only where the settings let that be asked
/// for from here (`[server] mcp_commands`).
#[utoipa::path(post, path = "/mcp/servers", tag = "mcp", params(IdempotencyKey), request_body = Draft,
    responses((status = 201, body = Server)))]
async fn add(
    State(app): State<Shared>,
    Operator(caller): Operator,
    Body(draft): Body<Draft>,
) -> Result<(StatusCode, Json<Server>), Problem> {
    let name = draft.name.clone();
    // An address may hold a secret in its query; arguments may be one.
    let host = draft.url.as_deref().and_then(|url| windlass::outbound::Url::parse(url).ok());
    let way = host.and_then(|url| url.host_str().map(str::to_owned)).or_else(|| draft.command.clone());
    let note = Note::by(&caller.0, "mcp.added").on(&name).with("way", way).with("trusted", draft.trusted);
    app.servers.add(draft, &app.accounts, note).await?;
    let status = app.servers.hub.server(&name)?;
    Ok((StatusCode::CREATED, Json(Server::of(status, &app, &caller).await)))
}

/// One server
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

/// Takes an added server out, with everything that it has left behind
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

/// Connects to a server anew, at once; a program is started anew
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

/// What a server has said, and when it came and went
///
/// For those who run the store: what a program writes may hold what nobody else should read.
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
            ChangeError::Command => {
                Self::forbidden(said).hint("name it in `windlass.toml`, or set `mcp_commands = true` there")
            }
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
            // 502 and 503 say that something beyond this server did not work.
            _ => Self::new(StatusCode::BAD_GATEWAY, "tool_server", said),
        }
    }
}
