//! `/threads/{thread}/share` and `/shares`: letting all users of the workspace read a thread.
//!
//! Readers see messages, live updates and costs. They cannot start runs, read files, or send messages and answers. The
//! thread's URL is the link: it requires an account of the workspace, and works until the share ends.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;
use windlass::EngineError;
use windlass::machine::ThreadId;

use super::auto_run::OfUser;
use crate::account;
use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::input::{Path, Query};
use crate::http::page::{Page, PageQuery};
use crate::http::problem::Problem;

pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(one, share, unshare)).routes(routes!(list))
}

/// Whether all users of the workspace may read a thread.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Sharing {
    /// Whether the thread is shared.
    shared: bool,
    /// User who shared it.
    by: Option<Sharer>,
    /// When it was shared, in milliseconds since the Unix epoch.
    at: Option<u64>,
}

/// The user who shared a thread.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Sharer {
    /// Id of the user.
    id: String,
    /// Display name.
    name: String,
}

impl Sharing {
    async fn of(app: &Shared, share: Option<account::share::Share>) -> Result<Self, Problem> {
        let Some(share) = share else { return Ok(Self { shared: false, by: None, at: None }) };
        let known = app.accounts.refresh().await?.find(&share.by);
        let name = known.map(|user| user.name.clone()).unwrap_or_default();
        let by = Sharer { id: share.by.to_string(), name };
        Ok(Self { shared: true, by: Some(by), at: Some(share.at.0) })
    }
}

/// Get whether a conversation is shared with the workspace
#[utoipa::path(get, path = "/threads/{thread}/share", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id")),
    responses((status = 200, body = Sharing)))]
async fn one(
    State(app): State<Shared>,
    caller: Caller,
    Path(thread): Path<ThreadId>,
) -> Result<Json<Sharing>, Problem> {
    caller.reads()?;
    caller.reads_thread(&app, &thread).await?;
    let share = app.accounts.shared(&thread).await?;
    Sharing::of(&app, share).await.map(Json)
}

/// Share a conversation with all users of the workspace
///
/// They can read its messages, tool calls and tool results, including later ones. They cannot send messages, answer
/// interrupts or read its files.
#[utoipa::path(put, path = "/threads/{thread}/share", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id")),
    responses((status = 200, body = Sharing)))]
async fn share(
    State(app): State<Shared>,
    caller: Caller,
    Path(thread): Path<ThreadId>,
) -> Result<Json<Sharing>, Problem> {
    caller.runs()?;
    let row = caller.thread(&app, &thread).await?;
    let share = app.accounts.share(&caller.0, &thread, &row.view.owner).await?;
    Sharing::of(&app, Some(share)).await.map(Json)
}

/// Stop sharing a conversation; open streams of other readers end within a minute
#[utoipa::path(delete, path = "/threads/{thread}/share", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id")),
    responses((status = 204, description = "only the owner can read the conversation")))]
async fn unshare(
    State(app): State<Shared>,
    caller: Caller,
    Path(thread): Path<ThreadId>,
) -> Result<StatusCode, Problem> {
    caller.runs()?;
    let row = caller.thread(&app, &thread).await?;
    app.accounts.unshare(&caller.0, &thread, &row.view.owner).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A shared thread.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct SharedThread {
    /// Id of the thread.
    thread: String,
    /// Title, if it has one.
    title: Option<String>,
    /// When it was shared, in milliseconds since the Unix epoch.
    at: u64,
}

/// List the user's shared conversations
#[utoipa::path(get, path = "/shares", tag = "threads", params(PageQuery, OfUser),
    responses((status = 200, body = Page<SharedThread>)))]
async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Query(page): Query<PageQuery>,
    Query(of): Query<OfUser>,
) -> Result<Json<Page<SharedThread>>, Problem> {
    caller.reads()?;
    let user = caller.user_or_self(&app, of.user.as_deref()).await?;
    let (limit, after) = (page.limit()?, page.after::<String>()?);
    let shares = app.accounts.shares(&user, after.as_deref(), limit + 1).await?;
    let page = Page::of(shares, limit, |share| share.thread.to_string());
    let mut data = Vec::with_capacity(page.data.len());
    for share in page.data {
        match app.engine.thread(&share.thread).row().await {
            Ok(row) => data.push(SharedThread {
                thread: share.thread.to_string(),
                title: row.view.title,
                at: share.at.0,
            }),
            // A process that does not maintain shares, such as `windlass threads delete`, has deleted the thread.
            Err(EngineError::NoThread(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Json(Page { data, next_cursor: page.next_cursor }))
}
