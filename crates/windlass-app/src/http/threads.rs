//! `/threads`: conversations.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass::machine::ThreadId;
use windlass::port::journal::{ThreadRow, ThreadStatus};

use super::Shared;
use super::caller::Caller;
use super::input::Path;
use super::problem::Problem;

/// The routes.
pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(one))
}

/// A conversation.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Thread {
    /// Its id.
    id: String,
    /// Its title, once it has one.
    title: Option<String>,
    /// `idle`, `running` or `waiting`.
    #[schema(value_type = String)]
    status: ThreadStatus,
    /// Position of its last event.
    head: u64,
    /// Open interrupts.
    interrupts: u32,
    /// When it was made, in milliseconds since the Unix epoch.
    created_at: u64,
    /// When it last changed, in milliseconds since the Unix epoch.
    updated_at: u64,
}

impl From<ThreadRow> for Thread {
    fn from(row: ThreadRow) -> Self {
        Self {
            id: row.thread.to_string(),
            title: row.view.title,
            status: row.view.status,
            head: row.head.0,
            interrupts: row.view.interrupts,
            created_at: row.created_at.0,
            updated_at: row.view.updated_at.0,
        }
    }
}

/// One conversation
#[utoipa::path(get, path = "/threads/{thread}", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id")),
    responses((status = 200, body = Thread), (status = 401, body = Problem), (status = 404, body = Problem)))]
async fn one(
    State(app): State<Shared>,
    caller: Caller,
    Path(thread): Path<ThreadId>,
) -> Result<Json<Thread>, Problem> {
    caller.reads()?;
    Ok(Json(caller.thread(&app, &thread).await?.into()))
}
