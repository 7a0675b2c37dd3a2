//! `/mode` and `/threads/{thread}/mode`: which calls run without asking, for a user and for one thread.
//!
//! What a mode lets through is the gate's to say; rules of administrators win over every mode.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass::Whose;
use windlass::machine::{AutoRun, Principal, ThreadId};

use super::Shared;
use super::caller::Caller;
use super::etag::{ETag, IfMatch, IfNoneMatch, Seen, not_modified};
use super::input::{Body, Path, Query};
use super::problem::Problem;
use crate::account::audit::Note;

/// The routes.
pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(own, choose, forget)).routes(routes!(
        of_thread,
        choose_for_thread,
        forget_of_thread
    ))
}

/// Which calls run without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Those that are known to change nothing; the others ask.
    Ask,
    /// Those of the tools on the user's allow list as well.
    Allowlist,
    /// All that are not marked destructive.
    Everything,
}

impl From<AutoRun> for Mode {
    fn from(mode: AutoRun) -> Self {
        match mode {
            AutoRun::Ask => Self::Ask,
            AutoRun::Allowlist => Self::Allowlist,
            AutoRun::Everything => Self::Everything,
        }
    }
}

impl From<Mode> for AutoRun {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Ask => Self::Ask,
            Mode::Allowlist => Self::Allowlist,
            Mode::Everything => Self::Everything,
        }
    }
}

/// A mode that was chosen, and the one that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
struct Chosen {
    /// What was chosen here; null where nothing was.
    mode: Option<Mode>,
    /// What counts: the choice for the thread, else that of its user, else `ask`.
    effective: Mode,
}

/// A choice.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Choice {
    /// The mode.
    mode: Mode,
}

/// Whose.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct OfUser {
    /// Another user of the workspace; only for administrators.
    pub user: Option<String>,
}

async fn chosen(app: &Shared, whose: &Whose, owner: &Principal) -> Result<Chosen, Problem> {
    let mode = app.engine.mode(whose).await?;
    let below = match whose {
        Whose::Thread(_) if mode.is_none() => app.engine.mode(&Whose::User(owner.clone())).await?,
        Whose::Thread(_) | Whose::User(_) => None,
    };
    let effective = mode.or(below).unwrap_or_default();
    Ok(Chosen { mode: mode.map(Mode::from), effective: effective.into() })
}

fn tag(chosen: Chosen) -> ETag {
    ETag::strong(&("mode", chosen))
}

async fn show(app: &Shared, seen: &Seen, whose: &Whose, owner: &Principal) -> Result<Response, Problem> {
    let chosen = chosen(app, whose, owner).await?;
    let tag = tag(chosen);
    Ok(if seen.knows(&tag) { not_modified(&tag) } else { tag.json(chosen) })
}

async fn set(
    app: &Shared,
    caller: &Caller,
    seen: &Seen,
    (whose, owner): (&Whose, &Principal),
    mode: Option<Mode>,
) -> Result<Chosen, Problem> {
    seen.allows(&tag(chosen(app, whose, owner).await?))?;
    app.engine.set_mode(whose, mode.map(AutoRun::from)).await?;
    let subject = match whose {
        Whose::User(user) => user.as_str(),
        Whose::Thread(thread) => thread.as_str(),
    };
    let mode = serde_json::to_value(mode).unwrap_or_default();
    app.accounts.record(Note::by(&caller.0, "mode.chosen").on(subject).with("mode", mode)).await?;
    chosen(app, whose, owner).await
}

/// The user's own mode
#[utoipa::path(get, path = "/mode", tag = "gate", params(OfUser, IfNoneMatch),
    responses((status = 200, body = Chosen, headers(("ETag" = String, description = "its version"))),
        (status = 304, description = "it is as the sender has it")))]
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

/// Chooses the user's own mode
#[utoipa::path(put, path = "/mode", tag = "gate", params(OfUser, IfMatch), request_body = Choice,
    responses((status = 200, body = Chosen, headers(("ETag" = String, description = "its version")))))]
async fn choose(
    State(app): State<Shared>,
    caller: Caller,
    seen: Seen,
    Query(of): Query<OfUser>,
    Body(choice): Body<Choice>,
) -> Result<Response, Problem> {
    caller.approves()?;
    let user = caller.user_or_self(&app, of.user.as_deref()).await?;
    let now = set(&app, &caller, &seen, (&Whose::User(user.clone()), &user), Some(choice.mode)).await?;
    Ok(tag(now).json(now))
}

/// Takes the choice of the user's own mode back
#[utoipa::path(delete, path = "/mode", tag = "gate", params(OfUser, IfMatch),
    responses((status = 204, description = "nothing is chosen now")))]
async fn forget(
    State(app): State<Shared>,
    caller: Caller,
    seen: Seen,
    Query(of): Query<OfUser>,
) -> Result<StatusCode, Problem> {
    caller.approves()?;
    let user = caller.user_or_self(&app, of.user.as_deref()).await?;
    set(&app, &caller, &seen, (&Whose::User(user.clone()), &user), None).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The mode of a conversation
#[utoipa::path(get, path = "/threads/{thread}/mode", tag = "gate",
    params(("thread" = String, Path, description = "the thread's id"), IfNoneMatch),
    responses((status = 200, body = Chosen, headers(("ETag" = String, description = "its version"))),
        (status = 304, description = "it is as the sender has it")))]
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

/// Chooses the mode of a conversation
#[utoipa::path(put, path = "/threads/{thread}/mode", tag = "gate",
    params(("thread" = String, Path, description = "the thread's id"), IfMatch), request_body = Choice,
    responses((status = 200, body = Chosen, headers(("ETag" = String, description = "its version")))))]
async fn choose_for_thread(
    State(app): State<Shared>,
    caller: Caller,
    seen: Seen,
    Path(thread): Path<ThreadId>,
    Body(choice): Body<Choice>,
) -> Result<Response, Problem> {
    caller.approves()?;
    let owner = caller.thread(&app, &thread).await?.view.owner;
    let now = set(&app, &caller, &seen, (&Whose::Thread(thread), &owner), Some(choice.mode)).await?;
    Ok(tag(now).json(now))
}

/// Takes the choice of a conversation's mode back
#[utoipa::path(delete, path = "/threads/{thread}/mode", tag = "gate",
    params(("thread" = String, Path, description = "the thread's id"), IfMatch),
    responses((status = 204, description = "the user's own mode counts now")))]
async fn forget_of_thread(
    State(app): State<Shared>,
    caller: Caller,
    seen: Seen,
    Path(thread): Path<ThreadId>,
) -> Result<StatusCode, Problem> {
    caller.approves()?;
    let owner = caller.thread(&app, &thread).await?.view.owner;
    set(&app, &caller, &seen, (&Whose::Thread(thread), &owner), None).await?;
    Ok(StatusCode::NO_CONTENT)
}
