//! `/auth/me`, `/auth/password` and `/auth/sessions`: the caller's own account.

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::account::key::ApiKeys;
use crate::account::people::member::MemberChange;
use crate::account::people::user::User;
use crate::account::sessions::session::Session;
use crate::account::{Credential, Role};
use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::{Caller, Peer};
use crate::http::cookie::Base;
use crate::http::input::{Body, Path, Query};
use crate::http::problem::Problem;

pub fn routes() -> ApiRouter {
    ApiRouter::new()
        .routes(routes!(me, change_me))
        .routes(routes!(change_password))
        .routes(routes!(sessions, end_all))
        .routes(routes!(end_one))
}

/// The caller's account.
#[derive(Serialize, ToSchema)]
pub struct Me {
    /// Id of the account.
    id: String,
    /// Email address.
    email: Option<String>,
    /// Display name.
    name: String,
    /// Role of the account.
    role: Role,
    /// Name of its workspace.
    workspace: String,
    /// Whether the account has a password.
    has_password: bool,
    /// When it was created, in milliseconds since the Unix epoch.
    created_at: u64,
}

impl Me {
    /// Builds the response for the account's own user.
    pub async fn of(app: &Shared, user: &User) -> Result<Self, Problem> {
        Ok(Self {
            id: user.id.to_string(),
            email: user.email.clone(),
            name: user.name.clone(),
            role: user.role,
            workspace: user.workspace.clone(),
            has_password: app.accounts.has_password(&user.id).await?,
            created_at: user.created_at.0,
        })
    }
}

/// Get the caller's account
#[utoipa::path(get, path = "/auth/me", tag = "auth",
    responses((status = 200, body = Me), (status = 401, body = Problem)))]
async fn me(State(app): State<Shared>, caller: Caller) -> Result<Json<Me>, Problem> {
    caller.reads()?;
    let member = app.accounts.member(caller.workspace(), caller.user()).await?;
    Ok(Json(Me::of(&app, &member.user).await?))
}

/// A change of the caller's account. Absent fields stay unchanged.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct MeChange {
    name: Option<String>,
    /// New email address. Requires the current password. An account without one must have signed in within the last 5
    /// minutes.
    email: Option<String>,
    /// The current password.
    #[schema(format = Password)]
    password: Option<String>,
}

/// Change the name or email address of the caller's account
#[utoipa::path(patch, path = "/auth/me", tag = "auth", request_body = MeChange,
    responses((status = 200, body = Me), (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 409, body = Problem), (status = 422, body = Problem),
        (status = 429, body = Problem, description = "too many password or address attempts")))]
async fn change_me(
    State(app): State<Shared>,
    caller: Caller,
    Peer(client): Peer,
    Body(body): Body<MeChange>,
) -> Result<Json<Me>, Problem> {
    caller.manages_itself()?;
    let change = MemberChange { name: body.name, email: body.email, ..MemberChange::default() };
    let member = app.accounts.change_self(&caller.0, change, body.password, &client).await?;
    Ok(Json(Me::of(&app, &member.user).await?))
}

/// A password change.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PasswordChange {
    /// The current password. If the account has none, the session must have started within the last 5 minutes.
    #[schema(format = Password)]
    current_password: Option<String>,
    /// 8 to 1,024 bytes.
    #[schema(format = Password)]
    new_password: String,
    /// Whether to revoke all API keys of the account, too.
    #[serde(default)]
    revoke_keys: bool,
}

/// Change the caller's password; all other sessions end
#[utoipa::path(put, path = "/auth/password", tag = "auth", request_body = PasswordChange,
    responses((status = 204), (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 409, body = Problem), (status = 422, body = Problem), (status = 429, body = Problem)))]
async fn change_password(
    State(app): State<Shared>,
    caller: Caller,
    Peer(client): Peer,
    Body(body): Body<PasswordChange>,
) -> Result<StatusCode, Problem> {
    caller.session()?;
    let PasswordChange { current_password, new_password, revoke_keys } = body;
    let keys = if revoke_keys { ApiKeys::Revoke } else { ApiKeys::Keep };
    app.accounts.change_password(&caller.0, current_password, new_password, keys, &client).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A session.
#[derive(Serialize, ToSchema)]
struct SessionInfo {
    /// Id of the session.
    id: String,
    /// Whether it is the session of this request.
    current: bool,
    /// User agent of the client that signed in.
    agent: Option<String>,
    /// Network address of the client that signed in.
    from: Option<String>,
    /// When it started, in milliseconds since the Unix epoch.
    created_at: u64,
    /// When it was last refreshed, in milliseconds since the Unix epoch.
    seen_at: u64,
    /// When it expires, in milliseconds since the Unix epoch.
    expires_at: u64,
}

/// The sessions of an account.
#[derive(Serialize, ToSchema)]
pub struct Sessions {
    /// Most recently used first; their number is limited to some dozens.
    data: Vec<SessionInfo>,
}

/// List the caller's sessions
#[utoipa::path(get, path = "/auth/sessions", tag = "auth",
    responses((status = 200, body = Sessions), (status = 401, body = Problem)))]
async fn sessions(State(app): State<Shared>, caller: Caller) -> Result<Json<Sessions>, Problem> {
    caller.reads()?;
    Ok(Json(Sessions::of(app.accounts.sessions(caller.user()).await?, &caller)))
}

impl Sessions {
    /// Builds the response, and marks the caller's own session.
    pub fn of(sessions: Vec<Session>, caller: &Caller) -> Self {
        let own = |session: &Session| match &caller.0.credential {
            Credential::Session(id) | Credential::Guest(id) => *id == session.id,
            Credential::Key { .. } => false,
        };
        let info = |session: Session| SessionInfo {
            current: own(&session),
            id: session.id,
            agent: session.agent,
            from: session.from,
            created_at: session.created_at.0,
            seen_at: session.seen_at.0,
            expires_at: session.expires_at.0,
        };
        Self { data: sessions.into_iter().map(info).collect() }
    }
}

/// Which sessions to keep.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Keep {
    /// `current` keeps the session of this request.
    #[param(inline)]
    keep: Option<KeepWord>,
}

#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum KeepWord {
    Current,
}

/// End all sessions of the caller
#[utoipa::path(delete, path = "/auth/sessions", tag = "auth", params(Keep),
    responses((status = 204), (status = 401, body = Problem)))]
async fn end_all(
    State(app): State<Shared>,
    caller: Caller,
    base: Base,
    Query(query): Query<Keep>,
) -> Result<impl IntoResponse, Problem> {
    caller.manages_itself()?;
    match query.keep {
        Some(KeepWord::Current) => {
            app.accounts.end_sessions(&caller.0, Some(caller.session()?)).await?;
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        None => {
            app.accounts.end_sessions(&caller.0, None).await?;
            Ok((StatusCode::NO_CONTENT, base.signed_out()).into_response())
        }
    }
}

/// End a session of the caller
#[utoipa::path(delete, path = "/auth/sessions/{session}", tag = "auth",
    params(("session" = String, Path, description = "the session's id")),
    responses((status = 204), (status = 401, body = Problem), (status = 404, body = Problem)))]
async fn end_one(
    State(app): State<Shared>,
    caller: Caller,
    Path(session): Path<String>,
) -> Result<StatusCode, Problem> {
    caller.manages_itself()?;
    app.accounts.end_session(&caller.0, &session).await?;
    Ok(StatusCode::NO_CONTENT)
}
