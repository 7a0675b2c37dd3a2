//! `/threads/{thread}/commands`: the commands that a conversation has at work in the background.
//!
//! Which of them end by themselves (with a cancelled run, with the conversation, with the process) is the engine's to say.

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

/// The routes.
pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(list)).routes(routes!(end))
}

/// A command at work in the background.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Command {
    /// Its name, by which the model knows it; that of another process on the store is followed by `@` and its node.
    id: String,
    /// Its first 500 characters.
    command: String,
    /// The run that began it.
    run: String,
    /// When it was begun, in milliseconds since the Unix epoch.
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

/// Commands that a conversation has at work in the background
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

/// Ends a command in the background, with all that it has started
///
/// It is told to end, and killed after two seconds; the answer comes when it has ended.
#[utoipa::path(delete, path = "/threads/{thread}/commands/{command}", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id"),
        ("command" = String, Path, description = "the command's name")),
    responses((status = 204, description = "it has ended")))]
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
