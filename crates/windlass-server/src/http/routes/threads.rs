//! `/threads`: conversations. A thread is made by its first message, which `POST /runs` sends.
//!
//! What stands in one is in `messages.rs`, `journal.rs` and `queue.rs`; nothing here folds a journal.

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

/// Shortest text that titles are searched for: one letter is in nearly all.
const SEARCH_MIN_CHARS: usize = 2;
/// Longest text that titles are searched for: titles are shorter.
const SEARCH_MAX_CHARS: usize = 100;
/// Longest title that a thread keeps.
const TITLE_MAX_CHARS: usize = 60;

/// The routes.
pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(list)).routes(routes!(one, rename, delete))
}

/// What a thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Doing {
    /// No run is active.
    Idle,
    /// A run is active.
    Running,
    /// A run is parked on an outside reply.
    Waiting,
    /// A run goes on at a time, and nothing of it is in flight until then.
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
    /// Its id.
    #[schema(example = "thr_01k9w4q2x7c3m")]
    id: String,
    /// Whose it is.
    owner: String,
    /// Its title, once it has one.
    title: Option<String>,
    /// What it is doing.
    status: Doing,
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

/// A conversation with where it comes from.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct OneThread {
    #[serde(flatten)]
    thread: Thread,
    /// What it is a fork of; null where it is none.
    forked_from: Option<Origin>,
}

impl From<ThreadRow> for OneThread {
    fn from(mut row: ThreadRow) -> Self {
        let forked_from = row.view.forked_from.take();
        let origin = |from: ForkPoint| Origin { thread: from.thread.to_string(), until: from.until.0 };
        Self { forked_from: forked_from.map(origin), thread: Thread::from(row) }
    }
}

/// Where a fork comes from.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Origin {
    /// The other conversation, which may be gone by now.
    thread: String,
    /// Position of the last of its events that was copied.
    until: u64,
}

/// How a thread is told: another number whenever the same row is told otherwise.
const TOLD: u32 = 2;

/// All that a thread's row says is written with its events.
fn tag(row: &ThreadRow) -> ETag {
    ETag::strong(&("thread", TOLD, &row.thread, row.created_at, row.head))
}

/// Which threads.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ThreadFilter {
    /// Only those whose title contains this text, letter case aside.
    #[param(min_length = 2, max_length = 100)]
    query: Option<String>,
    /// Only those that do this.
    #[param(inline)]
    status: Option<Doing>,
    /// Those of the whole workspace; only for administrators.
    #[serde(default)]
    all: Option<bool>,
}

/// Conversations, newest activity first
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

/// One conversation
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

/// What changes in a conversation.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ThreadChange {
    /// Its title.
    #[schema(min_length = 1, max_length = 60, pattern = "\\S")]
    title: String,
}

/// Gives a conversation another title
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
        let detail =
            format!("`title` has {chars} characters; it must have 1 to {TITLE_MAX_CHARS}, not all blank");
        return Err(Problem::invalid(detail));
    }
    app.engine.thread(&thread).send(Input::Title { title: change.title, by: caller.user().clone() }).await?;
    let row = caller.thread(&app, &thread).await?;
    let tag = tag(&row);
    Ok(tag.json(Thread::from(row)))
}

/// Deletes a conversation with everything in it
///
/// Refused while a run is active in it: cancel the run first.
#[utoipa::path(delete, path = "/threads/{thread}", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id"), IfMatch),
    responses((status = 204, description = "it is gone")))]
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

/// Deletes a conversation with what was chosen for it and its folder.
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
    // The conversation is gone all the same, and nobody is served from its folder.
    if let Err(error) = removed.map_err(std::io::Error::other).flatten() {
        tracing::warn!(%error, "the folder of a deleted conversation stays");
    }
    Ok(())
}
