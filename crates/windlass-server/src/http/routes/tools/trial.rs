//! `POST /tools/{tool}/call`: a trial call outside of any thread.
//!
//! The gate judges the call like a call in a run of the caller. The tool works in the folder of the caller's uploads.
//! The audit log has an entry before the call starts and after it ends, even if the client disconnects.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use utoipa::ToSchema;
use windlass::machine::ToolName;
use windlass::{Consent, EngineError, Trial, Tried};

use crate::account::audit::Note;
use crate::clock::now;
use crate::home::Home;
use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::input::{Body, Path};
use crate::http::middleware::idempotency::IdempotencyKey;
use crate::http::problem::Problem;
use crate::http::routes::interrupts::submit::is_settled;
use crate::http::state::limiter::places::Place;
use crate::toolbox::{Content, content};

/// Maximum number of concurrent trial calls. Each call may occupy an operating-system thread or a process, and users
/// make trial calls one at a time.
static AT_ONCE: Semaphore = Semaphore::const_new(8);

/// Default time that a call may take without progress, in seconds.
const TIMEOUT_S: u64 = 60;
/// Maximum total time of a call, in seconds. The limit bounds the time for which the request is open and occupies one
/// of the slots.
const TIMEOUT_MAX_S: u64 = 300;

pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(call))
}

/// A trial call.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"arguments": {"pattern": "**/*.csv"}}))]
pub struct TrialCall {
    /// Arguments of the call.
    #[serde(default)]
    #[schema(value_type = Object)]
    arguments: Map<String, Value>,
    /// Approves the call if the policy asks and the caller's approval is sufficient. Requires the scope to approve.
    #[serde(default)]
    approve: bool,
    /// With `approve`: the preview that the caller saw. If the call would now have another effect, it requires
    /// approval again.
    preview: Option<String>,
    /// Seconds that the call may take without progress. The total time is at most 300 seconds.
    #[schema(minimum = 1, maximum = 300, default = 60)]
    timeout_seconds: Option<u64>,
}

/// The result of a trial call.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TrialOutcome {
    /// Name of the tool.
    tool: String,
    /// Whether the tool reported an error.
    error: bool,
    /// Content blocks of the result.
    content: Vec<Content>,
    /// What allowed the call: the name of a rule or another source of the decision.
    by: String,
    /// Milliseconds from dispatch to the end.
    duration_ms: u64,
}

/// Make a trial call of a tool
///
/// If the policy requires approval, the response is 409 `asks`. With `approve` the call runs if the caller's approval
/// is sufficient.
#[utoipa::path(post, path = "/tools/{tool}/call", tag = "tools", request_body = TrialCall,
    params(("tool" = String, Path, description = "the tool's name"), IdempotencyKey),
    responses((status = 200, body = TrialOutcome), (status = 409, body = Problem, description = "the call \
        requires approval"),
        (status = 403, body = Problem, description = "a rule denies the call, or the caller lacks permission"),
        (status = 429, body = Problem, description = "the caller has reached the limit of calls in progress"),
        (status = 503, body = Problem, description = "`busy`: the server has reached the limit of calls in \
            progress")))]
pub async fn call(
    State(app): State<Shared>,
    caller: Caller,
    Path(tool): Path<ToolName>,
    Body(wanted): Body<TrialCall>,
) -> Result<Json<TrialOutcome>, Problem> {
    caller.runs()?;
    if wanted.approve {
        caller.approves()?;
    }
    let timeout = wanted.timeout_seconds.unwrap_or(TIMEOUT_S);
    if !(1..=TIMEOUT_MAX_S).contains(&timeout) {
        let detail = format!("`timeout_seconds` is {timeout}; it must be 1 to {TIMEOUT_MAX_S}");
        return Err(Problem::invalid(detail));
    }
    let known = app.engine.tools().list().iter().any(|offered| offered.spec.name == tool);
    if !known {
        return Err(Problem::not_found(format!("tool `{tool}`")));
    }
    let busy = |status, detail| Problem::new(status, "busy", detail).retry_after(5);
    let Some(own) = app.limits.limiter.trials.try_take(caller.user().as_str()) else {
        return Err(busy(StatusCode::TOO_MANY_REQUESTS, "you already have two trial calls in progress"));
    };
    let Ok(room) = AT_ONCE.try_acquire() else {
        return Err(busy(StatusCode::SERVICE_UNAVAILABLE, "too many trial calls are in progress"));
    };
    let (held, home) = (app.clone(), Home::of(caller.workspace(), caller.user()));
    let folder = tokio::task::spawn_blocking(move || held.homes.uploads(&home));
    let folder = folder.await.map_err(Problem::internal)?.map_err(Problem::internal)?;
    let trial = Trial {
        tool: tool.clone(),
        arguments: Value::Object(wanted.arguments),
        by: caller.party(),
        folder: Some(folder),
        consent: match (wanted.approve, wanted.preview) {
            (false, _) => Consent::NotYet,
            (true, None) => Consent::Given,
            (true, Some(preview)) => Consent::AsShown(preview),
        },
        timeout_ms: timeout * 1_000,
        at_most_ms: Some(TIMEOUT_MAX_S * 1_000),
        stop: CancellationToken::new(),
        // As for answers to interrupts, an account that another user may have taken over cannot approve in its owner's
        // name.
        counts_as_approver: is_settled(&caller, now(), app.config.settings.vote_after_ms),
    };
    // A client disconnect does not stop the call: the call keeps its slot until it ends, and the audit log records the
    // end.
    let made = tokio::spawn(made(app, caller, trial, (own, room)).in_current_span());
    answer(&tool, made.await.map_err(Problem::internal)??)
}

/// Makes a call, with audit entries before and after it.
async fn made(
    app: Shared,
    caller: Caller,
    trial: Trial,
    _room: (Place, SemaphorePermit<'static>),
) -> Result<Tried, Problem> {
    let tool = trial.tool.clone();
    let note = |action: &str| Note::by(&caller.0, action).on(tool.as_str());
    // Write the audit entry of the attempt before the tool runs.
    let approve = trial.consent != Consent::NotYet;
    app.accounts.record(note("tool.trial").with("approve", json!(approve))).await?;
    let tried = app.engine.tools().try_tool(trial).await;
    let (outcome, by) = told(&tried);
    app.accounts.record(note("tool.tried").with("outcome", json!(outcome)).with("by", json!(by))).await?;
    Ok(tried?)
}

/// Returns the outcome for the audit log: its name, and the source of the decision.
fn told(tried: &Result<Tried, EngineError>) -> (&'static str, Option<&str>) {
    match tried {
        Err(_) => ("error", None),
        Ok(Tried::Unknown) => ("unknown", None),
        Ok(Tried::Unfit { .. }) => ("unfit", None),
        Ok(Tried::Denied { by, .. }) => ("denied", Some(by)),
        Ok(Tried::Asks { by, .. }) => ("asks", Some(by)),
        Ok(Tried::Ran(result)) if result.given_up => ("given_up", Some(&result.by)),
        Ok(Tried::Ran(result)) if result.error => ("failed", Some(&result.by)),
        Ok(Tried::Ran(result)) => ("ran", Some(&result.by)),
    }
}

fn answer(tool: &ToolName, tried: Tried) -> Result<Json<TrialOutcome>, Problem> {
    match tried {
        Tried::Unknown => Err(Problem::not_found(format!("tool `{tool}`"))),
        Tried::Unfit { reason } => Err(Problem::invalid(format!("the call is invalid: {reason}"))),
        Tried::Denied { by, reason } => {
            let why = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            Err(Problem::new(StatusCode::FORBIDDEN, "denied", format!("denied by `{by}`{why}")))
        }
        Tried::Asks { by, yours, preview } => {
            let would = preview.map(|preview| format!(". It would do this:\n{preview}")).unwrap_or_default();
            let problem =
                Problem::conflict("asks", format!("the call requires approval (reason: {by}){would}"));
            Err(match yours {
                true => problem.hint("send `\"approve\": true` to run it"),
                false => {
                    problem.hint("such calls require another user's approval: have an agent make the call")
                }
            })
        }
        Tried::Ran(result) => Ok(Json(TrialOutcome {
            tool: tool.to_string(),
            error: result.error,
            content: content(&result),
            duration_ms: result.duration_ms,
            by: result.by,
        })),
    }
}
