//! `/runs`: tasks given, watched, waited for and stopped.
//!
//! Every answer about a run is the one flat shape of the library's `Outcome` (LM-R3). Streams are another file's.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass::Outcome;
use windlass::machine::{RunId, RunStatus, ThreadId, Timestamp};
use windlass::port::journal::{RunQuery, RunRow};

use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::etag::{ETag, IfNoneMatch, Seen};
use crate::http::input::{Body, Path, Query};
use crate::http::middleware::idempotency::{Claimed, IdempotencyKey};
use crate::http::outcome::RunOutcome;
use crate::http::page::{Page, PageQuery, time};
use crate::http::problem::Problem;
use crate::http::start::send::{NewMessage, Sent, send};

/// How an outcome is told: another number whenever the same run is told otherwise.
const TOLD: u32 = 2;
/// Longest wait for a run, in seconds: what proxies let a request take.
const WAIT_MAX_S: u64 = 60;
/// What a client would rather have. (RFC 7240)
const PREFER: HeaderName = HeaderName::from_static("prefer");
/// What of it was done.
const APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// The routes.
pub fn routes() -> ApiRouter {
    ApiRouter::new()
        .routes(routes!(list, start))
        .routes(routes!(one))
        .routes(routes!(wait))
        .routes(routes!(cancel))
}

/// A run in a list.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Run {
    /// Its id.
    #[schema(example = "run_01k9w4q2x7c3m")]
    id: String,
    /// Its thread.
    thread: String,
    /// The thread's title, once it has one.
    thread_title: Option<String>,
    /// Position of its first event in its thread's journal.
    from: u64,
    /// Whose thread it is.
    owner: String,
    /// Name of its agent.
    agent: String,
    /// The model in use.
    model: String,
    /// How it ended; null while it is active.
    status: Option<Ended>,
    /// Whether it is active, and waits for somebody's reply.
    waits: bool,
    /// When it began, in milliseconds since the Unix epoch.
    started_at: u64,
    /// When it ended.
    finished_at: Option<u64>,
    /// Steps that were started.
    steps: u32,
    /// Tool calls that were dispatched.
    tool_calls: u32,
    /// Prompt tokens; null where the provider reports none.
    input_tokens: Option<u64>,
    /// Generated tokens.
    output_tokens: Option<u64>,
    /// Known cost in millionths of a US dollar.
    cost_micro_usd: Option<u64>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Ended {
    /// With an answer.
    Done,
    /// With an error.
    Failed,
    /// By a person or program.
    Cancelled,
}

impl From<RunStatus> for Ended {
    fn from(status: RunStatus) -> Self {
        match status {
            RunStatus::Done => Self::Done,
            RunStatus::Failed => Self::Failed,
            RunStatus::Cancelled => Self::Cancelled,
        }
    }
}

impl From<RunRow> for Run {
    fn from(row: RunRow) -> Self {
        let (totals, view) = (row.view.totals, row.view);
        Self {
            id: view.run.to_string(),
            thread: row.thread.to_string(),
            thread_title: row.title,
            from: view.from.0,
            owner: row.owner.to_string(),
            agent: view.agent,
            model: view.model.to_string(),
            status: view.status.map(Ended::from),
            waits: row.asking,
            started_at: view.started_at.0,
            finished_at: view.finished_at.map(|at| at.0),
            steps: totals.steps,
            tool_calls: totals.calls,
            input_tokens: totals.usage.input,
            output_tokens: totals.usage.output,
            cost_micro_usd: totals.cost.map(|cost| cost.0),
        }
    }
}

/// Which runs.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct RunFilter {
    /// Only those of this thread.
    thread: Option<String>,
    /// Only those that are active, or only those that have ended.
    active: Option<bool>,
    /// Only those that stand so; then `active` does not count.
    #[param(inline)]
    status: Option<Stands>,
    /// Only those that began at this time or after it, in milliseconds since the Unix epoch.
    #[param(minimum = 0)]
    from: Option<u64>,
    /// Only those that began before this time.
    #[param(minimum = 0)]
    until: Option<u64>,
    /// Those of the whole workspace; only for administrators.
    all: Option<bool>,
}

/// How a run stands, where runs are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Stands {
    /// It is active.
    Active,
    /// It is active, and waits for somebody's reply.
    Waiting,
    /// It ended with an answer.
    Done,
    /// It ended with an error.
    Failed,
    /// It was stopped.
    Cancelled,
}

impl Stands {
    fn ended(self) -> Option<RunStatus> {
        match self {
            Self::Active | Self::Waiting => None,
            Self::Done => Some(RunStatus::Done),
            Self::Failed => Some(RunStatus::Failed),
            Self::Cancelled => Some(RunStatus::Cancelled),
        }
    }
}

/// Runs, newest first
#[utoipa::path(get, path = "/runs", tag = "runs", params(PageQuery, RunFilter),
    responses((status = 200, body = Page<Run>)))]
async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Query(page): Query<PageQuery>,
    Query(filter): Query<RunFilter>,
) -> Result<Json<Page<Run>>, Problem> {
    caller.reads()?;
    let all = filter.all.unwrap_or_default();
    if all {
        caller.administers_or(|| "only an administrator may list `all` runs of the workspace")?;
    }
    let thread = filter.thread.map(ThreadId::from);
    if let Some(thread) = &thread {
        caller.thread(&app, thread).await?;
    }
    let limit = page.limit()?;
    let own = !all && thread.is_none();
    let query = RunQuery {
        workspace: Some(caller.workspace().to_owned()),
        owner: own.then(|| caller.user().clone()),
        thread,
        active: filter.status.map_or(filter.active, |status| Some(status.ended().is_none())),
        ended: filter.status.and_then(Stands::ended),
        asking: filter.status == Some(Stands::Waiting),
        from: time("from", filter.from)?,
        until: time("until", filter.until)?,
        before: page.after::<(Timestamp, RunId)>()?,
        limit: limit + 1,
    };
    let rows = app.engine.runs(&query).await?;
    let page = Page::of(rows, limit, |row| (row.view.started_at, row.view.run.clone()));
    Ok(Json(page.map(Run::from)))
}

/// Gives an agent a task
///
/// Without a thread a new one is made for it. In a thread with an active run, `when_busy` says what happens.
#[utoipa::path(post, path = "/runs", tag = "runs", params(IdempotencyKey), request_body = NewMessage,
    responses((status = 201, body = Sent, description = "the run has begun",
            headers(("Location" = String, description = "the run"))),
        (status = 202, body = Sent, description = "the message waits behind another run",
            headers(("Location" = String, description = "the run")))))]
async fn start(
    State(app): State<Shared>,
    caller: Caller,
    claimed: Claimed,
    Body(new): Body<NewMessage>,
) -> Result<Response, Problem> {
    caller.runs()?;
    send(&app, &caller, &claimed, None, new).await
}

/// How a run stands
///
/// With `Prefer: wait=n` the answer comes when the run has ended or waits for a person, or after n seconds.
#[utoipa::path(get, path = "/runs/{run}", tag = "runs",
    params(("run" = String, Path, description = "the run's id"), IfNoneMatch, PreferWait),
    responses((status = 200, body = RunOutcome)))]
async fn one(
    State(app): State<Shared>,
    caller: Caller,
    seen: Seen,
    headers: HeaderMap,
    Path(run): Path<RunId>,
) -> Result<Response, Problem> {
    caller.reads()?;
    let row = caller.run(&app, &run).await?;
    if let Some(seconds) = preferred(&headers) {
        let outcome = within(&app, &run, seconds).await?;
        let mut response = Json(RunOutcome::from(outcome)).into_response();
        if let Ok(applied) = HeaderValue::from_str(&format!("wait={seconds}")) {
            response.headers_mut().insert(APPLIED, applied);
        }
        return Ok(response);
    }
    let head = app.engine.thread(&row.thread).row().await?.head;
    // Nothing else is written about a run that has ended.
    let tag = match row.view.finished_at {
        Some(end) => ETag::weak(&("run", TOLD, &run, end)),
        None => ETag::weak(&("run", TOLD, &run, head)),
    };
    seen.answer(&tag, async { Ok(RunOutcome::from(app.engine.run(&run).status().await?)) }).await
}

/// The header of a patient client.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "it describes a header; `preferred` reads it")]
struct PreferWait {
    /// `wait=n`: up to n seconds, at most 60.
    #[param(rename = "Prefer", example = "wait=10")]
    prefer: Option<String>,
}

fn preferred(headers: &HeaderMap) -> Option<u64> {
    let lines = headers.get_all(PREFER).iter().filter_map(|line| line.to_str().ok());
    let mut preferences = lines.flat_map(|line| line.split([',', ';'])).map(str::trim);
    let seconds =
        preferences.find_map(|preference| preference.strip_prefix("wait=")?.trim_matches('"').parse().ok());
    // A preference that cannot be met is met as far as it goes.
    seconds.map(|seconds: u64| seconds.min(WAIT_MAX_S))
}

async fn within(app: &Shared, run: &RunId, seconds: u64) -> Result<Outcome, Problem> {
    match tokio::time::timeout(Duration::from_secs(seconds), app.engine.run(run).wait()).await {
        Ok(outcome) => Ok(outcome?),
        Err(_) => Ok(app.engine.run(run).status().await?),
    }
}

/// For how long.
#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct WaitQuery {
    /// Seconds to wait at most.
    #[param(minimum = 0, maximum = 60, default = 60)]
    timeout: Option<u64>,
}

/// Waits until a run has ended or waits for a person
///
/// A run that still goes on after that time is told as it stands: ask again.
#[utoipa::path(get, path = "/runs/{run}/wait", tag = "runs",
    params(("run" = String, Path, description = "the run's id"), WaitQuery),
    responses((status = 200, body = RunOutcome)))]
async fn wait(
    State(app): State<Shared>,
    caller: Caller,
    Path(run): Path<RunId>,
    Query(query): Query<WaitQuery>,
) -> Result<Json<RunOutcome>, Problem> {
    caller.reads()?;
    let seconds = query.timeout.unwrap_or(WAIT_MAX_S);
    if seconds > WAIT_MAX_S {
        return Err(Problem::bad_request(format!(
            "`timeout` is {seconds}; it must be 0 to {WAIT_MAX_S} seconds"
        ))
        .hint("ask again after that"));
    }
    caller.run(&app, &run).await?;
    Ok(Json(within(&app, &run, seconds).await?.into()))
}

/// Stops a run
///
/// Nothing new starts, and what runs is told to end; the run has ended when its status says so.
#[utoipa::path(post, path = "/runs/{run}/cancel", tag = "runs",
    params(("run" = String, Path, description = "the run's id"), IdempotencyKey),
    responses((status = 202, body = RunOutcome, description = "it is being stopped, or has been",
        headers(("Location" = String, description = "the run")))))]
async fn cancel(
    State(app): State<Shared>,
    caller: Caller,
    Path(run): Path<RunId>,
) -> Result<Response, Problem> {
    caller.runs()?;
    caller.run(&app, &run).await?;
    app.engine.run(&run).cancel(caller.user().clone()).await?;
    let outcome = RunOutcome::from(app.engine.run(&run).status().await?);
    Ok((StatusCode::ACCEPTED, [(header::LOCATION, format!("/api/v1/runs/{run}"))], Json(outcome))
        .into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patient_client_is_understood() {
        for (line, wanted) in [
            ("wait=10", Some(10)),
            ("respond-async, wait=\"5\"", Some(5)),
            ("wait=600", Some(WAIT_MAX_S)),
            ("wait=-1", None),
            ("return=minimal", None),
        ] {
            let headers = HeaderMap::from_iter([(PREFER, HeaderValue::from_static(line))]);
            assert_eq!(preferred(&headers), wanted, "{line}");
        }
    }
}
