//! `/runs`: starting, listing, waiting for and cancelling runs.
//!
//! Every response about a single run has the flat shape of the library's `Outcome` (LM-R3). The streams are in
//! `stream/`.

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

/// Version of the outcome's representation, for entity tags. Increment it when the representation of a run changes.
const TOLD: u32 = 2;
/// Maximum wait for a run, in seconds: proxies usually close a silent connection after this time.
const WAIT_MAX_S: u64 = 60;
/// The request header that asks for a wait. (RFC 7240)
const PREFER: HeaderName = HeaderName::from_static("prefer");
/// The response header that confirms the wait.
const APPLIED: HeaderName = HeaderName::from_static("preference-applied");

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
    /// Id of the run.
    #[schema(example = "run_01k9w4q2x7c3m")]
    id: String,
    /// Id of its thread.
    thread: String,
    /// Title of the thread, if it has one.
    thread_title: Option<String>,
    /// Position of its first event in its thread's journal.
    from: u64,
    /// Id of the thread's owner.
    owner: String,
    /// Name of its agent.
    agent: String,
    /// The model in use.
    model: String,
    /// Final status; null while the run is active.
    status: Option<Ended>,
    /// Whether it is active and waits for a person's answer.
    waits: bool,
    /// Start time, in milliseconds since the Unix epoch.
    started_at: u64,
    /// End time, in milliseconds since the Unix epoch.
    finished_at: Option<u64>,
    /// Number of steps started.
    steps: u32,
    /// Number of tool calls dispatched.
    tool_calls: u32,
    /// Prompt tokens; null if the provider reports none.
    input_tokens: Option<u64>,
    /// Generated tokens; null if the provider reports none.
    output_tokens: Option<u64>,
    /// Cost in millionths of a US dollar, as far as prices are known.
    cost_micro_usd: Option<u64>,
}

/// Final status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Ended {
    /// Completed.
    Done,
    /// Failed with an error.
    Failed,
    /// Cancelled by a person or program.
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

/// Filters for runs.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct RunFilter {
    /// Only those of this thread.
    thread: Option<String>,
    /// Only active ones, or only ended ones.
    active: Option<bool>,
    /// Only those with this status; overrides `active`.
    #[param(inline)]
    status: Option<Stands>,
    /// Only those that started at or after this time, in milliseconds since the Unix epoch.
    #[param(minimum = 0)]
    from: Option<u64>,
    /// Only those that started before this time.
    #[param(minimum = 0)]
    until: Option<u64>,
    /// Runs of the whole workspace; only for administrators.
    all: Option<bool>,
}

/// Status to filter runs by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Stands {
    /// Active.
    Active,
    /// Active and waiting for a person's answer.
    Waiting,
    /// Completed.
    Done,
    /// Failed with an error.
    Failed,
    /// Cancelled.
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

/// List runs, newest first
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

/// Start a run
///
/// Without a thread, a new one is created. In a thread with an active run, `when_busy` determines what happens.
#[utoipa::path(post, path = "/runs", tag = "runs", params(IdempotencyKey), request_body = NewMessage,
    responses((status = 201, body = Sent, description = "the run has started",
            headers(("Location" = String, description = "the run"))),
        (status = 202, body = Sent, description = "the message is queued behind another run",
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

/// Get the outcome of a run
///
/// With `Prefer: wait=n` the response is sent when the run has ended or waits for a person, or after n seconds.
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
    // The journal receives no further event of an ended run.
    let tag = match row.view.finished_at {
        Some(end) => ETag::weak(&("run", TOLD, &run, end)),
        None => ETag::weak(&("run", TOLD, &run, head)),
    };
    seen.answer(&tag, async { Ok(RunOutcome::from(app.engine.run(&run).status().await?)) }).await
}

/// The header that asks for a delayed response.
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
    // A wait above the maximum is shortened.
    seconds.map(|seconds: u64| seconds.min(WAIT_MAX_S))
}

async fn within(app: &Shared, run: &RunId, seconds: u64) -> Result<Outcome, Problem> {
    match tokio::time::timeout(Duration::from_secs(seconds), app.engine.run(run).wait()).await {
        Ok(outcome) => Ok(outcome?),
        Err(_) => Ok(app.engine.run(run).status().await?),
    }
}

/// Query parameters of a wait.
#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct WaitQuery {
    /// Maximum wait in seconds.
    #[param(minimum = 0, maximum = 60, default = 60)]
    timeout: Option<u64>,
}

/// Wait until a run has ended or waits for a person
///
/// If the run is still in progress after that time, the response has its current state; repeat the request.
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
        .hint("send the request again to wait longer"));
    }
    caller.run(&app, &run).await?;
    Ok(Json(within(&app, &run, seconds).await?.into()))
}

/// Cancel a run
///
/// No new call starts, and running calls are stopped. The run has ended when its status says so.
#[utoipa::path(post, path = "/runs/{run}/cancel", tag = "runs",
    params(("run" = String, Path, description = "the run's id"), IdempotencyKey),
    responses((status = 202, body = RunOutcome, description = "the run is being cancelled, or has ended",
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
