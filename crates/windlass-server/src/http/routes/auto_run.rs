//! `/auto-run` and `/threads/{thread}/auto-run`: the calls that run without approval, for a user and for one thread.
//!
//! The gate applies the setting, and rules of administrators take precedence over it. The setting is separate from a
//! run's mode, which limits the calls that the run may make at all.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass::machine::{self, Principal, Reject, ThreadId};
use windlass::port::records::Expect;
use windlass::{EngineError, Whose};

use crate::account::audit::Note;
use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::etag::{ETag, IfMatch, IfNoneMatch, Seen};
use crate::http::input::{Body, Path, Query};
use crate::http::problem::Problem;

pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(own, choose, forget)).routes(routes!(
        of_thread,
        choose_for_thread,
        forget_of_thread
    ))
}

/// Which calls run without approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AutoRun {
    /// Calls that are known to change nothing. All others require approval.
    Ask,
    /// Also calls of tools on the user's allow list.
    Allowlist,
    /// All calls that are not marked destructive.
    Everything,
}

impl From<machine::AutoRun> for AutoRun {
    fn from(auto_run: machine::AutoRun) -> Self {
        match auto_run {
            machine::AutoRun::Ask => Self::Ask,
            machine::AutoRun::Allowlist => Self::Allowlist,
            machine::AutoRun::Everything => Self::Everything,
        }
    }
}

impl From<AutoRun> for machine::AutoRun {
    fn from(auto_run: AutoRun) -> Self {
        match auto_run {
            AutoRun::Ask => Self::Ask,
            AutoRun::Allowlist => Self::Allowlist,
            AutoRun::Everything => Self::Everything,
        }
    }
}

/// The setting and its effective value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
struct Chosen {
    /// The value set here; null if none is set.
    auto_run: Option<AutoRun>,
    /// The effective value: that of the thread, else that of its user, else `ask`.
    effective: AutoRun,
}

/// A new value.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Choice {
    /// Which calls run without approval.
    auto_run: AutoRun,
}

/// Whose setting.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct OfUser {
    /// Another user of the workspace; only for administrators.
    pub user: Option<String>,
}

/// Reads the setting, and the version that a conditional change must expect.
async fn chosen(app: &Shared, whose: &Whose, owner: &Principal) -> Result<(Chosen, Expect), Problem> {
    let (auto_run, expected) = app.engine.policy().read_auto_run(whose).await?;
    let below = match whose {
        Whose::Thread(_) if auto_run.is_none() => {
            app.engine.policy().auto_run(&Whose::User(owner.clone())).await?
        }
        Whose::Thread(_) | Whose::User(_) => None,
    };
    let effective = auto_run.or(below).unwrap_or_default();
    Ok((Chosen { auto_run: auto_run.map(AutoRun::from), effective: effective.into() }, expected))
}

fn tag(chosen: Chosen) -> ETag {
    ETag::strong(&("auto_run", chosen))
}

async fn show(app: &Shared, seen: &Seen, whose: &Whose, owner: &Principal) -> Result<Response, Problem> {
    let (chosen, _) = chosen(app, whose, owner).await?;
    seen.answer(&tag(chosen), async { Ok(chosen) }).await
}

async fn set(
    app: &Shared,
    caller: &Caller,
    seen: &Seen,
    whose: &Whose,
    owner: &Principal,
    auto_run: Option<AutoRun>,
) -> Result<Chosen, Problem> {
    let wanted = auto_run.map(machine::AutoRun::from);
    let subject = match whose {
        Whose::User(user) => user.as_str(),
        Whose::Thread(thread) => thread.as_str(),
    };
    let said = serde_json::to_value(auto_run).unwrap_or_default();
    let (now, mut expected) = chosen(app, whose, owner).await?;
    seen.allows(&tag(now))?;
    // Write the audit entry before the change, so that no change can take effect without an entry.
    app.accounts.record(Note::by(&caller.0, "auto_run.chosen").on(subject).with("auto_run", said)).await?;
    loop {
        match app.engine.policy().change_auto_run(whose, wanted, expected).await {
            // A concurrent change has taken effect first. Check `If-Match` again against the new value.
            Err(EngineError::Rejected(Reject::Stale { .. })) => {}
            changed => break changed?,
        }
        let now;
        (now, expected) = chosen(app, whose, owner).await?;
        seen.allows(&tag(now))?;
    }
    Ok(chosen(app, whose, owner).await?.0)
}

/// Get which calls run without approval for the user
#[utoipa::path(get, path = "/auto-run", tag = "gate", params(OfUser, IfNoneMatch),
    responses((status = 200, body = Chosen)))]
async fn own(
    State(app): State<Shared>,
    caller: Caller,
    seen: Seen,
    Query(of): Query<OfUser>,
) -> Result<Response, Problem> {
    caller.reads()?;
    let user = caller.user_or_self(&app, of.user.as_deref()).await?;
    show(&app, &seen, &Whose::User(user.clone()), &user).await
}

/// Set which calls run without approval for the user
#[utoipa::path(put, path = "/auto-run", tag = "gate", params(OfUser, IfMatch), request_body = Choice,
    responses((status = 200, body = Chosen)))]
async fn choose(
    State(app): State<Shared>,
    caller: Caller,
    seen: Seen,
    Query(of): Query<OfUser>,
    Body(choice): Body<Choice>,
) -> Result<Response, Problem> {
    caller.approves()?;
    let user = caller.user_or_self(&app, of.user.as_deref()).await?;
    let now = set(&app, &caller, &seen, &Whose::User(user.clone()), &user, Some(choice.auto_run)).await?;
    Ok(tag(now).json(now))
}

/// Reset the user's choice
#[utoipa::path(delete, path = "/auto-run", tag = "gate", params(OfUser, IfMatch),
    responses((status = 204, description = "the choice was reset")))]
async fn forget(
    State(app): State<Shared>,
    caller: Caller,
    seen: Seen,
    Query(of): Query<OfUser>,
) -> Result<StatusCode, Problem> {
    caller.approves()?;
    let user = caller.user_or_self(&app, of.user.as_deref()).await?;
    set(&app, &caller, &seen, &Whose::User(user.clone()), &user, None).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Get which calls run without approval in a conversation
#[utoipa::path(get, path = "/threads/{thread}/auto-run", tag = "gate",
    params(("thread" = String, Path, description = "the thread's id"), IfNoneMatch),
    responses((status = 200, body = Chosen)))]
async fn of_thread(
    State(app): State<Shared>,
    caller: Caller,
    seen: Seen,
    Path(thread): Path<ThreadId>,
) -> Result<Response, Problem> {
    caller.reads()?;
    let owner = caller.thread(&app, &thread).await?.view.owner;
    show(&app, &seen, &Whose::Thread(thread), &owner).await
}

/// Set which calls run without approval in a conversation
#[utoipa::path(put, path = "/threads/{thread}/auto-run", tag = "gate",
    params(("thread" = String, Path, description = "the thread's id"), IfMatch), request_body = Choice,
    responses((status = 200, body = Chosen)))]
async fn choose_for_thread(
    State(app): State<Shared>,
    caller: Caller,
    seen: Seen,
    Path(thread): Path<ThreadId>,
    Body(choice): Body<Choice>,
) -> Result<Response, Problem> {
    caller.approves()?;
    let owner = caller.thread(&app, &thread).await?.view.owner;
    let now = set(&app, &caller, &seen, &Whose::Thread(thread), &owner, Some(choice.auto_run)).await?;
    Ok(tag(now).json(now))
}

/// Reset the choice for a conversation
#[utoipa::path(delete, path = "/threads/{thread}/auto-run", tag = "gate",
    params(("thread" = String, Path, description = "the thread's id"), IfMatch),
    responses((status = 204, description = "the user's own choice applies")))]
async fn forget_of_thread(
    State(app): State<Shared>,
    caller: Caller,
    seen: Seen,
    Path(thread): Path<ThreadId>,
) -> Result<StatusCode, Problem> {
    caller.approves()?;
    let owner = caller.thread(&app, &thread).await?.view.owner;
    set(&app, &caller, &seen, &Whose::Thread(thread), &owner, None).await?;
    Ok(StatusCode::NO_CONTENT)
}
