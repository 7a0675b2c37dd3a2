//! `/threads`: conversations. A thread is created by its first message, which `POST /runs` sends.
//!
//! The routes for its content are in `messages.rs`, `journal.rs` and `queue.rs`. No route in this file folds a journal.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass::Whose;
use windlass::machine::{ForkPoint, Input, ThreadId, Timestamp};
use windlass::port::journal::{ThreadQuery, ThreadRow, ThreadStatus};

use crate::account::audit::Note;
use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::etag::{ETag, IfMatch, IfNoneMatch, Seen};
use crate::http::input::{Body, Path, Query};
use crate::http::page::{Page, PageQuery};
use crate::http::problem::Problem;

/// Minimum length of a title search, in characters. A single letter would match nearly all titles.
const SEARCH_MIN_CHARS: usize = 2;
/// Maximum length of a title search, in characters. Longer texts would find no additional titles.
const SEARCH_MAX_CHARS: usize = 100;
/// Maximum length of a title, in characters.
const TITLE_MAX_CHARS: usize = 60;

pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(list)).routes(routes!(one, rename, delete))
}

/// Status of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Doing {
    /// No run is active.
    Idle,
    /// A run is active.
    Running,
    /// A run waits for an outside reply, such as an approval.
    Waiting,
    /// A run resumes at a later time, and none of its calls is in flight.
    Sleeping,
}

impl From<ThreadStatus> for Doing {
    fn from(status: ThreadStatus) -> Self {
        match status {
            ThreadStatus::Idle => Self::Idle,
            ThreadStatus::Running => Self::Running,
            ThreadStatus::Waiting => Self::Waiting,
            ThreadStatus::Sleeping => Self::Sleeping,
        }
    }
}

impl From<Doing> for ThreadStatus {
    fn from(doing: Doing) -> Self {
        match doing {
            Doing::Idle => Self::Idle,
            Doing::Running => Self::Running,
            Doing::Waiting => Self::Waiting,
            Doing::Sleeping => Self::Sleeping,
        }
    }
}

/// A conversation.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Thread {
    /// Id of the thread.
    #[schema(example = "thr_01k9w4q2x7c3m")]
    id: String,
    /// Id of its owner.
    owner: String,
    /// Title, if it has one.
    title: Option<String>,
    /// Current status.
    status: Doing,
    /// Position of its last event.
    head: u64,
    /// Number of open interrupts.
    interrupts: u32,
    /// When it was created, in milliseconds since the Unix epoch.
    created_at: u64,
    /// When it last changed, in milliseconds since the Unix epoch.
    updated_at: u64,
}

impl From<ThreadRow> for Thread {
    fn from(row: ThreadRow) -> Self {
        Self {
            id: row.thread.to_string(),
            owner: row.view.owner.to_string(),
            title: row.view.title,
            status: row.view.status.into(),
            head: row.head.0,
            interrupts: row.view.interrupts,
            created_at: row.created_at.0,
            updated_at: row.view.updated_at.0,
        }
    }
}

/// A conversation with its origin.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct OneThread {
    #[serde(flatten)]
    thread: Thread,
    /// Origin of a fork; null for other threads.
    forked_from: Option<Origin>,
}

impl From<ThreadRow> for OneThread {
    fn from(mut row: ThreadRow) -> Self {
        let forked_from = row.view.forked_from.take();
        let origin = |from: ForkPoint| Origin { thread: from.thread.to_string(), until: from.until.0 };
        Self { forked_from: forked_from.map(origin), thread: Thread::from(row) }
    }
}

/// Origin of a fork.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Origin {
    /// Id of the original thread, which may have been deleted.
    thread: String,
    /// Position of the last copied event.
    until: u64,
}

/// Version of the thread's representation, for entity tags. Increment it when the representation of a row changes.
const TOLD: u32 = 2;

/// Returns the entity tag of a thread's row. The store writes every change of a row together with events, so the row's
/// head identifies its version.
fn tag(row: &ThreadRow) -> ETag {
    ETag::strong(&("thread", TOLD, &row.thread, row.created_at, row.head))
}

/// Filters for threads.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ThreadFilter {
    /// Only those whose title contains this text, ignoring case.
    #[param(min_length = 2, max_length = 100)]
    query: Option<String>,
    /// Only those with this status.
    #[param(inline)]
    status: Option<Doing>,
    /// Threads of the whole workspace; only for administrators.
    #[serde(default)]
    all: Option<bool>,
}

/// List conversations, most recently active first
#[utoipa::path(get, path = "/threads", tag = "threads", params(PageQuery, ThreadFilter),
    responses((status = 200, body = Page<OneThread>)))]
async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Query(page): Query<PageQuery>,
    Query(filter): Query<ThreadFilter>,
) -> Result<Json<Page<OneThread>>, Problem> {
    caller.reads()?;
    let all = filter.all.unwrap_or_default();
    if all {
        caller.administers_or(|| "only an administrator may list `all` threads of the workspace")?;
    }
    if let Some(query) = &filter.query {
        let chars = query.chars().count();
        if !(SEARCH_MIN_CHARS..=SEARCH_MAX_CHARS).contains(&chars) {
            let detail = format!(
                "`query` has {chars} characters; it must have {SEARCH_MIN_CHARS} to {SEARCH_MAX_CHARS}"
            );
            return Err(Problem::bad_request(detail));
        }
    }
    let limit = page.limit()?;
    let query = ThreadQuery {
        workspace: Some(caller.workspace().to_owned()),
        owner: (!all).then(|| caller.user().clone()),
        title_contains: filter.query,
        status: filter.status.map(ThreadStatus::from),
        before: page.after::<(Timestamp, ThreadId)>()?,
        limit: limit + 1,
        ..ThreadQuery::default()
    };
    let rows = app.engine.threads(&query).await?;
    let Page { data: rows, next_cursor } =
        Page::of(rows, limit, |row| (row.view.updated_at, row.thread.clone()));
    let data = rows.into_iter().map(OneThread::from).collect();
    Ok(Json(Page { data, next_cursor }))
}

/// Get a conversation
#[utoipa::path(get, path = "/threads/{thread}", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id"), IfNoneMatch),
    responses((status = 200, body = OneThread)))]
async fn one(
    State(app): State<Shared>,
    caller: Caller,
    seen: Seen,
    Path(thread): Path<ThreadId>,
) -> Result<Response, Problem> {
    caller.reads()?;
    let row = caller.reads_thread(&app, &thread).await?;
    let tag = tag(&row);
    seen.answer(&tag, async { Ok(OneThread::from(row)) }).await
}

/// A change of a conversation.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ThreadChange {
    /// New title.
    #[schema(min_length = 1, max_length = 60, pattern = "\\S")]
    title: String,
}

/// Rename a conversation
#[utoipa::path(patch, path = "/threads/{thread}", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id"), IfMatch), request_body = ThreadChange,
    responses((status = 200, body = Thread)))]
async fn rename(
    State(app): State<Shared>,
    caller: Caller,
    seen: Seen,
    Path(thread): Path<ThreadId>,
    Body(change): Body<ThreadChange>,
) -> Result<Response, Problem> {
    caller.runs()?;
    let row = caller.thread(&app, &thread).await?;
    seen.allows(&tag(&row))?;
    let chars = change.title.chars().count();
    if change.title.trim().is_empty() || chars > TITLE_MAX_CHARS {
        let detail = format!(
            "`title` has {chars} characters; it must have 1 to {TITLE_MAX_CHARS} and must not be blank"
        );
        return Err(Problem::invalid(detail));
    }
    app.engine.thread(&thread).send(Input::Title { title: change.title, by: caller.user().clone() }).await?;
    let row = caller.thread(&app, &thread).await?;
    let tag = tag(&row);
    Ok(tag.json(Thread::from(row)))
}

/// Delete a conversation and its data
///
/// Fails while a run is active; cancel the run first.
#[utoipa::path(delete, path = "/threads/{thread}", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id"), IfMatch),
    responses((status = 204, description = "the conversation was deleted")))]
async fn delete(
    State(app): State<Shared>,
    caller: Caller,
    seen: Seen,
    Path(thread): Path<ThreadId>,
) -> Result<StatusCode, Problem> {
    caller.runs()?;
    let row = caller.thread(&app, &thread).await?;
    seen.allows(&tag(&row))?;
    forget(&app, &caller, row).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Deletes a thread with its settings, its share and its folder.
pub async fn forget(app: &Shared, caller: &Caller, row: ThreadRow) -> Result<(), Problem> {
    let ThreadRow { thread, view, .. } = row;
    app.engine.thread(&thread).delete().await?;
    app.engine.policy().set_auto_run(&Whose::Thread(thread.clone()), None).await?;
    app.accounts.forget_share(&thread).await?;
    if view.owner != *caller.user() {
        let note = Note::by(&caller.0, "thread.deleted").on(thread.as_str());
        app.accounts.record(note.with("owner", view.owner.as_str())).await?;
    }
    let homes = app.homes.clone();
    let removed = tokio::task::spawn_blocking(move || homes.forget(&thread, view.folder.as_deref())).await;
    // The thread is already deleted, so no route serves files of its folder. Only log the error.
    if let Err(error) = removed.map_err(std::io::Error::other).flatten() {
        tracing::warn!(%error, "the folder of a deleted conversation could not be removed");
    }
    Ok(())
}
