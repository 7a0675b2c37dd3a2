//! `/auth/me`, `/auth/password` and `/auth/sessions`: one's own account.

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

/// The routes.
pub fn routes() -> ApiRouter {
    ApiRouter::new()
        .routes(routes!(me, change_me))
        .routes(routes!(change_password))
        .routes(routes!(sessions, end_all))
        .routes(routes!(end_one))
}

/// One's own account.
#[derive(Serialize, ToSchema)]
pub struct Me {
    /// Its id.
    id: String,
    /// Its address.
    email: Option<String>,
    /// How people call it.
    name: String,
    /// What it may do.
    role: Role,
    /// Its workspace.
    workspace: String,
    /// Whether it signs in with a password.
    has_password: bool,
    /// When it was made, in milliseconds since the Unix epoch.
    created_at: u64,
}

impl Me {
    /// An account as its owner sees it.
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

/// Who asks
#[utoipa::path(get, path = "/auth/me", tag = "auth",
    responses((status = 200, body = Me), (status = 401, body = Problem)))]
async fn me(State(app): State<Shared>, caller: Caller) -> Result<Json<Me>, Problem> {
    caller.reads()?;
    let member = app.accounts.member(caller.workspace(), caller.user()).await?;
    Ok(Json(Me::of(&app, &member.user).await?))
}

/// What is changed of one's own account; what is absent stays.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct MeChange {
    name: Option<String>,
    /// A new address; it takes the current password, or a sign-in within 5 minutes where there is none.
    email: Option<String>,
    /// The current password.
    #[schema(format = Password)]
    password: Option<String>,
}

/// Change one's own name or address
#[utoipa::path(patch, path = "/auth/me", tag = "auth", request_body = MeChange,
    responses((status = 200, body = Me), (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 409, body = Problem), (status = 422, body = Problem),
        (status = 429, body = Problem, description = "too many passwords or addresses were tried")))]
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

/// Another password.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PasswordChange {
    /// The current one; where there is none, the session must have begun within 5 minutes.
    #[schema(format = Password)]
    current_password: Option<String>,
    /// 8 to 1,024 bytes.
    #[schema(format = Password)]
    new_password: String,
    /// Also revokes all API keys of the account.
    #[serde(default)]
    revoke_keys: bool,
}

/// Change one's own password; all other sessions end
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
    /// Its id.
    id: String,
    /// Whether it is the one that asks.
    current: bool,
    /// The program that signed in, as it names itself.
    agent: Option<String>,
    /// The address that it signed in from.
    from: Option<String>,
    /// When somebody signed in, in milliseconds since the Unix epoch.
    created_at: u64,
    /// When it was last refreshed, in milliseconds since the Unix epoch.
    seen_at: u64,
    /// The moment from which it no longer counts, in milliseconds since the Unix epoch.
    expires_at: u64,
}

/// The sessions of an account.
#[derive(Serialize, ToSchema)]
pub struct Sessions {
    /// The one used last first; there are at most some dozens.
    data: Vec<SessionInfo>,
}

/// One's own sessions
#[utoipa::path(get, path = "/auth/sessions", tag = "auth",
    responses((status = 200, body = Sessions), (status = 401, body = Problem)))]
async fn sessions(State(app): State<Shared>, caller: Caller) -> Result<Json<Sessions>, Problem> {
    caller.reads()?;
    Ok(Json(Sessions::of(app.accounts.sessions(caller.user()).await?, &caller)))
}

impl Sessions {
    /// Sessions of an account, as a caller sees them.
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

/// Which sessions stay.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Keep {
    /// `current` keeps the session that asks.
    #[param(inline)]
    keep: Option<KeepWord>,
}

#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum KeepWord {
    Current,
}

/// Sign out everywhere
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

/// End a session of one's own
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
