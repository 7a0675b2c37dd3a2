//! `/interrupts`: open interrupts that wait for a person, and their answers.
//!
//! The inbox lists the interrupts that the caller may answer: interrupts of the caller's own threads, and interrupts
//! for which a rule names the caller. Administrators see all interrupts of the workspace. The machine decides whether
//! an answer is valid.

mod answer;
mod shape;
pub mod submit;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;
use windlass::machine::{InterruptId, ThreadId, Timestamp};
use windlass::port::journal::{RunRow, ThreadQuery, ThreadRow};
use windlass::{EngineError, Fault, FoldedThread, OpenInterrupt, TryAgain};

use self::answer::{Answered, Batch, Results, Wish, give};
pub use self::shape::Interrupt;
use self::shape::{Setting, Viewer};
pub use self::submit::submit;
use crate::account::audit::answer::run_of;
use crate::account::people::user::People;
use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::input::{Body, Path, Query};
use crate::http::middleware::idempotency::IdempotencyKey;
use crate::http::page::{Page, PageQuery};
use crate::http::problem::Problem;

/// Maximum number of threads examined for one page.
const THREADS: usize = 200;
/// Number of threads read per query.
const AT_ONCE: usize = 50;

pub fn routes() -> ApiRouter {
    ApiRouter::new()
        .routes(routes!(inbox))
        .routes(routes!(one))
        .routes(routes!(reply))
        .routes(routes!(reply_to_several))
}

/// Filters for interrupts.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct InboxFilter {
    /// Only those of this thread.
    thread: Option<String>,
}

/// List the open interrupts that the caller may answer, most recently active thread first
///
/// A page contains all interrupts of its threads, so it may have a few more rows than `limit`. If many threads only
/// have interrupts for other users, it may have fewer rows and still a `next_cursor`.
#[utoipa::path(get, path = "/interrupts", tag = "interrupts", params(PageQuery, InboxFilter),
    responses((status = 200, body = Page<Interrupt>)))]
async fn inbox(
    State(app): State<Shared>,
    caller: Caller,
    Query(page): Query<PageQuery>,
    Query(filter): Query<InboxFilter>,
) -> Result<Json<Page<Interrupt>>, Problem> {
    caller.reads()?;
    let limit = page.limit()?;
    let people = app.accounts.refresh().await?;
    if let Some(thread) = filter.thread.map(ThreadId::from) {
        let row = caller.thread(&app, &thread).await?;
        return Ok(Json(Page { data: of_thread(&app, &caller, people, &row).await?, next_cursor: None }));
    }
    let mut query = ThreadQuery {
        workspace: Some(caller.workspace().to_owned()),
        asking: true,
        before: page.after::<(Timestamp, ThreadId)>()?,
        limit: AT_ONCE,
        ..ThreadQuery::default()
    };
    let mut found = Vec::new();
    let mut looked = 0;
    loop {
        let threads = app.engine.threads(&query).await?;
        let is_last = threads.len() < AT_ONCE;
        let count = threads.len();
        for (index, row) in threads.into_iter().enumerate() {
            found.extend(of_thread(&app, &caller, people, &row).await?);
            looked += 1;
            let place = (row.view.updated_at, row.thread);
            let more = !is_last || index + 1 < count;
            if more && (found.len() >= limit || looked >= THREADS) {
                return Ok(Json(Page::until(found, Some(&place))));
            }
            query.before = Some(place);
        }
        if is_last {
            return Ok(Json(Page::until(found, None::<&()>)));
        }
    }
}

/// Returns the open interrupts of a thread that the caller may see.
async fn of_thread(
    app: &Shared,
    caller: &Caller,
    people: &People,
    row: &ThreadRow,
) -> Result<Vec<Interrupt>, Problem> {
    let (open, run_started_at) = match app.engine.asked_by(row).await {
        Ok(asked) => asked,
        // A thread that cannot be read, or was just deleted, must not hide the other threads.
        Err(error) if error.judge() == (Fault::Outside, TryAgain::Never) => {
            tracing::warn!(thread = %row.thread, %error, "the thread cannot be read");
            return Ok(Vec::new());
        }
        Err(EngineError::NoThread(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let sees_thread = caller.sees(&row.view.workspace, &row.view.owner);
    let viewer = viewer(app, caller, run_started_at);
    let seen: Vec<_> = open.into_iter().filter(|open| sees_thread || is_named(caller, open)).collect();
    if seen.is_empty() {
        return Ok(Vec::new());
    }
    let setting =
        Setting::of(app, caller, people, &row.thread, &row.view.owner, row.view.title.clone()).await?;
    Ok(seen.into_iter().map(|open| Interrupt::new(&setting, open, &viewer)).collect())
}

/// A folded thread with its open interrupts, shared by all steps of one request.
struct Snapshot {
    folded: FoldedThread,
    open: Vec<OpenInterrupt>,
}

impl Snapshot {
    async fn read(app: &Shared, thread: &ThreadId) -> Result<Self, EngineError> {
        let folded = app.engine.thread(thread).folded().await?;
        let open = app.engine.open_interrupts(&folded).await?;
        Ok(Self { folded, open })
    }

    /// Finds an open interrupt; see the function [`find`].
    fn find(
        &self,
        caller: &Caller,
        row: &RunRow,
        interrupt: &InterruptId,
    ) -> Result<Option<&OpenInterrupt>, Problem> {
        find(&self.open, caller, row, interrupt)
    }
}

/// Finds an open interrupt of a run's thread. Returns `None` if the interrupt is closed. A caller who may not see the
/// thread gets 404 instead.
fn find<'a>(
    open: &'a [OpenInterrupt],
    caller: &Caller,
    row: &RunRow,
    interrupt: &InterruptId,
) -> Result<Option<&'a OpenInterrupt>, Problem> {
    let open = open.iter().find(|open| open.interrupt == *interrupt);
    let is_named = open.is_some_and(|open| is_named(caller, open));
    if is_named || caller.sees(&row.workspace, &row.owner) { Ok(open) } else { Err(missing(interrupt)) }
}

fn viewer<'a>(app: &Shared, caller: &'a Caller, run_started_at: Timestamp) -> Viewer<'a> {
    Viewer { caller, run_started_at, vote_after_ms: app.config.settings.vote_after_ms }
}

fn missing(interrupt: &InterruptId) -> Problem {
    Problem::not_found(format!("interrupt `{interrupt}`"))
}

/// Returns whether a rule names the caller as an approver, even in another user's thread.
fn is_named(caller: &Caller, open: &OpenInterrupt) -> bool {
    let party = caller.party();
    open.terms.names(&party.principal, &party.roles)
}

/// Finds the run of an interrupt in the caller's workspace. [`find`] checks whether the caller may see the interrupt.
async fn locate(app: &Shared, caller: &Caller, interrupt: &InterruptId) -> Result<RunRow, Problem> {
    // The engine's ids contain a run id. An id without a run id cannot exist, so it needs no lookup.
    let run = run_of(interrupt);
    if run.as_str().is_empty() {
        return Err(missing(interrupt));
    }
    let row = match app.engine.run(&run).row().await {
        Err(EngineError::NoRun(_)) => return Err(missing(interrupt)),
        row => row?,
    };
    if row.workspace == caller.workspace() { Ok(row) } else { Err(missing(interrupt)) }
}

/// Get an interrupt
#[utoipa::path(get, path = "/interrupts/{interrupt}", tag = "interrupts",
    params(("interrupt" = String, Path, description = "the interrupt's id")),
    responses((status = 200, body = Interrupt)))]
async fn one(
    State(app): State<Shared>,
    caller: Caller,
    Path(interrupt): Path<InterruptId>,
) -> Result<Json<Interrupt>, Problem> {
    caller.reads()?;
    let row = locate(&app, &caller, &interrupt).await?;
    let thread = match app.engine.thread(&row.thread).row().await {
        Err(EngineError::NoThread(_)) => return Err(missing(&interrupt)),
        thread => thread?,
    };
    let (open, run_started_at) = app.engine.asked_by(&thread).await?;
    let open = find(&open, &caller, &row, &interrupt)?.cloned();
    let open = open.ok_or_else(|| Problem::not_found(format!("an open interrupt `{interrupt}`")))?;
    let people = app.accounts.refresh().await?;
    let setting = Setting::of(&app, &caller, people, &row.thread, &row.owner, row.title).await?;
    Ok(Json(Interrupt::new(&setting, open, &viewer(&app, &caller, run_started_at))))
}

/// Answer an interrupt
///
/// Each principal has one vote. If `approval` is given, the answer applies only to the call that it identifies. It is
/// required for an approval if a rule names approvers or a quorum.
#[utoipa::path(post, path = "/interrupts/{interrupt}/answer", tag = "interrupts",
    params(("interrupt" = String, Path, description = "the interrupt's id"), IdempotencyKey),
    request_body = Wish, responses((status = 200, body = Answered)))]
async fn reply(
    State(app): State<Shared>,
    caller: Caller,
    Path(interrupt): Path<InterruptId>,
    Body(wish): Body<Wish>,
) -> Result<Json<Answered>, Problem> {
    caller.approves()?;
    let row = locate(&app, &caller, &interrupt).await?;
    let snapshot = Snapshot::read(&app, &row.thread).await?;
    snapshot.find(&caller, &row, &interrupt)?;
    let mut answered = give(&app, &caller, &row, &snapshot, vec![(interrupt, wish)]).await?;
    // `give_all` returns one outcome per submitted answer.
    answered.pop().map(Json).ok_or_else(|| Problem::internal("an answer has no outcome"))
}

/// Answer several interrupts, of one or more threads
///
/// Answers for one thread are accepted or rejected together. Each thread has its own result.
#[utoipa::path(post, path = "/interrupts/answers", tag = "interrupts", params(IdempotencyKey), request_body = Batch,
    responses((status = 200, body = Results)))]
async fn reply_to_several(
    State(app): State<Shared>,
    caller: Caller,
    Body(batch): Body<Batch>,
) -> Result<Json<Results>, Problem> {
    caller.approves()?;
    answer::give_all(&app, &caller, batch).await.map(Json)
}
