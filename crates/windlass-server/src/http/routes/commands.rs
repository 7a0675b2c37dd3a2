//! `/threads/{thread}/commands`: commands that a thread runs in the background.
//!
//! The engine ends these commands when their run is cancelled, the thread is deleted, or the process stops.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;
use windlass::BackgroundCommand;
use windlass::machine::ThreadId;

use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::input::Path;
use crate::http::page::Page;
use crate::http::problem::Problem;

pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(list)).routes(routes!(end))
}

/// A command that runs in the background.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Command {
    /// Id that the model uses. For a command of another process, `@` and the node follow.
    id: String,
    /// First 500 characters of the command.
    command: String,
    /// Id of the run that started it.
    run: String,
    /// Start time, in milliseconds since the Unix epoch.
    begun_at: u64,
}

impl From<BackgroundCommand> for Command {
    fn from(command: BackgroundCommand) -> Self {
        Self {
            id: command.id,
            command: command.command,
            run: command.run.to_string(),
            begun_at: command.begun_at.0,
        }
    }
}

/// List commands that a conversation runs in the background
#[utoipa::path(get, path = "/threads/{thread}/commands", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id")),
    responses((status = 200, body = Page<Command>)))]
async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Path(thread): Path<ThreadId>,
) -> Result<Json<Page<Command>>, Problem> {
    caller.reads()?;
    caller.thread(&app, &thread).await?;
    let data = app.engine.thread(&thread).commands().await?.into_iter().map(Command::from).collect();
    Ok(Json(Page { data, next_cursor: None }))
}

/// End a background command and all processes that it started
///
/// The command receives a termination signal, and is killed after two seconds. The response is sent after it has
/// ended.
#[utoipa::path(delete, path = "/threads/{thread}/commands/{command}", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id"),
        ("command" = String, Path, description = "the command's name")),
    responses((status = 204, description = "the command has ended")))]
async fn end(
    State(app): State<Shared>,
    caller: Caller,
    Path((thread, command)): Path<(ThreadId, String)>,
) -> Result<StatusCode, Problem> {
    caller.runs()?;
    caller.thread(&app, &thread).await?;
    app.engine.thread(&thread).end_command(&command).await?;
    Ok(StatusCode::NO_CONTENT)
}
