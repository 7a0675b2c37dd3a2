//! `/threads/{thread}/share` and `/shares`: letting everybody in the workspace read a conversation.
//!
//! A reader gets what stands in it, what happens in it and what it cost, and nothing else: no run of it, no file, no
//! word in it. Its address is the link; it takes an account of the workspace, and ends with the share.

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

/// The routes.
pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(one, share, unshare)).routes(routes!(list))
}

/// Whether a conversation may be read by everybody in the workspace.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Sharing {
    /// Whether it may.
    shared: bool,
    /// Whoever said so.
    by: Option<Sharer>,
    /// When, in milliseconds since the Unix epoch.
    at: Option<u64>,
}

/// Whoever shared a conversation.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Sharer {
    /// Its id.
    id: String,
    /// How people call it.
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

/// Whether everybody in the workspace may read a conversation
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

/// Lets everybody in the workspace read a conversation, until that is taken back
///
/// They read what was said in it and what its tools were asked and answered, also what comes later. They write nothing
/// in it, answer nothing that it asks, and get none of its files.
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

/// Takes it back: whoever is reading it is let out within a minute
#[utoipa::path(delete, path = "/threads/{thread}/share", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id")),
    responses((status = 204, description = "it is its owner's alone")))]
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

/// A conversation that is shared.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct SharedThread {
    /// The thread's id.
    thread: String,
    /// Its title, once it has one.
    title: Option<String>,
    /// Since when, in milliseconds since the Unix epoch.
    at: u64,
}

/// The user's conversations that everybody in the workspace may read
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
            // Deleted where nobody knows of shares, such as by `windlass threads delete`.
            Err(EngineError::NoThread(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Json(Page { data, next_cursor: page.next_cursor }))
}
