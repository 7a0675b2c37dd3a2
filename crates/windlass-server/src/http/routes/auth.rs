//! `/auth`: registration, sign-in, sign-out, and one-time links. Browsers receive cookies. Programs use the access
//! token from the response body, or an API key.

mod failure;
pub mod me;
pub mod page;

use axum::Json;
use axum::extract::{FromRequestParts, Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use self::me::Me;
use crate::account::Registration;
use crate::account::key::ApiKeys;
use crate::account::link::{Link, LinkUse};
use crate::account::login::Registrant;
use crate::account::sessions::session::FirstRefresh;
use crate::account::sessions::session::{ACCESS_S, Tokens};
use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::{Caller, Peer, own_page};
use crate::http::cookie::{Base, REFRESH, SetCookies};
use crate::http::input::{Body, Query};
use crate::http::problem::Problem;

pub fn routes() -> ApiRouter {
    ApiRouter::new()
        .routes(routes!(options))
        .routes(routes!(register))
        .routes(routes!(login))
        .routes(routes!(logout))
        .routes(routes!(refresh))
        .routes(routes!(look_at_link, use_link))
        .routes(routes!(reset))
        .merge(me::routes())
}

/// Ways to sign in and register.
#[derive(Debug, Serialize, ToSchema)]
struct Options {
    /// Who may register.
    registration: Registration,
    /// Whether any user has registered yet.
    registered: bool,
    /// OpenID Connect providers: the names in `/auth/oidc/{name}`.
    providers: Vec<String>,
}

/// List the ways to sign in and register
#[utoipa::path(get, path = "/auth/options", tag = "auth", responses((status = 200, body = Options)))]
async fn options(State(app): State<Shared>) -> Result<Json<Options>, Problem> {
    let server = &app.config.settings.server;
    Ok(Json(Options {
        registration: server.registration(),
        registered: app.accounts.is_registered().await?,
        providers: server.oidc.keys().cloned().collect(),
    }))
}

/// An account to register.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RegisterBody {
    email: String,
    /// 8 to 1,024 bytes.
    #[schema(format = Password)]
    password: String,
    #[serde(default)]
    name: String,
    /// Token of an invitation, if registration requires one.
    invite: Option<String>,
}

/// The result of a sign-in. The refresh token is only in a cookie.
#[derive(Serialize, ToSchema)]
struct SignedIn {
    access_token: String,
    /// `bearer`.
    token_type: &'static str,
    /// Lifetime of the access token, in seconds.
    expires_in: u64,
    user: Me,
}

async fn signed_in(
    app: &Shared,
    base: &Base,
    tokens: Tokens,
) -> Result<(SetCookies, Json<SignedIn>), Problem> {
    let cookies = base.signed_in(&tokens);
    let user = Me::of(app, &tokens.user).await?;
    let body = SignedIn { access_token: tokens.access, token_type: "bearer", expires_in: ACCESS_S, user };
    Ok((cookies, Json(body)))
}

/// Register an account and sign in
#[utoipa::path(post, path = "/auth/register", tag = "auth", request_body = RegisterBody,
    responses((status = 201, body = SignedIn), (status = 403, body = Problem), (status = 409, body = Problem),
        (status = 410, body = Problem), (status = 422, body = Problem), (status = 429, body = Problem)))]
async fn register(
    State(app): State<Shared>,
    Peer(client): Peer,
    base: Base,
    Body(body): Body<RegisterBody>,
) -> Result<impl IntoResponse, Problem> {
    let RegisterBody { email, password, name, invite } = body;
    let draft = Registrant { email, password, name, invite };
    let tokens = app.accounts.register(draft, app.config.settings.server.registration(), &client).await?;
    Ok((StatusCode::CREATED, signed_in(&app, &base, tokens).await?))
}

/// An email address and its password.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct LoginBody {
    email: String,
    #[schema(format = Password)]
    password: String,
}

/// Sign in
#[utoipa::path(post, path = "/auth/login", tag = "auth", request_body = LoginBody,
    responses((status = 200, body = SignedIn), (status = 401, body = Problem), (status = 429, body = Problem)))]
async fn login(
    State(app): State<Shared>,
    Peer(client): Peer,
    base: Base,
    Body(body): Body<LoginBody>,
) -> Result<impl IntoResponse, Problem> {
    let tokens = app.accounts.login(&body.email, body.password, &client, FirstRefresh::Now).await?;
    signed_in(&app, &base, tokens).await
}

/// Sign out: ends the session and invalidates its tokens
#[utoipa::path(post, path = "/auth/logout", tag = "auth",
    responses((status = 204), (status = 403, body = Problem)))]
async fn logout(
    State(app): State<Shared>,
    base: Base,
    request: Request,
) -> Result<impl IntoResponse, Problem> {
    let (mut parts, _) = request.into_parts();
    match Caller::from_request_parts(&mut parts, &app).await {
        Ok(caller) => app.accounts.end_session(&caller.0, caller.session()?).await?,
        // The access token may have expired before its session.
        Err(problem) if problem.status == StatusCode::UNAUTHORIZED => {
            if let Some(token) = base.read(&parts.headers, REFRESH) {
                own_page(&parts, &app)?;
                app.accounts.end_by_refresh(token).await?;
            }
        }
        Err(problem) => return Err(problem),
    }
    Ok((StatusCode::NO_CONTENT, base.signed_out()))
}

/// Exchange the refresh token in the cookie for new tokens; each refresh token is valid once
#[utoipa::path(post, path = "/auth/refresh", tag = "auth",
    responses((status = 200, body = SignedIn), (status = 401, body = Problem), (status = 403, body = Problem)))]
async fn refresh(
    State(app): State<Shared>,
    Peer(client): Peer,
    base: Base,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, _) = request.into_parts();
    let Some(token) = base.read(&parts.headers, REFRESH) else {
        let problem = Problem::unauthenticated("the request has no refresh token");
        return Ok((base.signed_out(), problem).into_response());
    };
    own_page(&parts, &app)?;
    match app.accounts.refresh_session(token, &client).await.map_err(Problem::from) {
        Ok(tokens) => Ok(signed_in(&app, &base, tokens).await?.into_response()),
        Err(problem) if problem.status == StatusCode::UNAUTHORIZED => {
            Ok((base.signed_out(), problem).into_response())
        }
        Err(problem) => Err(problem),
    }
}

/// The token of a one-time link.
#[derive(Deserialize, ToSchema, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct LinkToken {
    token: String,
}

/// The purpose of a one-time link.
#[derive(Serialize, ToSchema)]
struct LinkInfo {
    /// `sign_in`, `invite` or `reset`.
    r#for: &'static str,
    /// The workspace.
    workspace: String,
    /// The email address that an invitation is restricted to.
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    /// When the link expires, in milliseconds since the Unix epoch.
    expires_at: u64,
}

impl From<Link> for LinkInfo {
    fn from(link: Link) -> Self {
        let (used_for, email) = match link.used_for {
            LinkUse::SignIn { .. } => ("sign_in", None),
            LinkUse::Invite { email, .. } => ("invite", email),
            LinkUse::Reset { .. } => ("reset", None),
        };
        Self { r#for: used_for, workspace: link.workspace, email, expires_at: link.expires_at.0 }
    }
}

/// Get the purpose of a one-time link without using it
#[utoipa::path(get, path = "/auth/link", tag = "auth", params(LinkToken),
    responses((status = 200, body = LinkInfo), (status = 410, body = Problem)))]
async fn look_at_link(
    State(app): State<Shared>,
    Query(link): Query<LinkToken>,
) -> Result<Json<LinkInfo>, Problem> {
    Ok(Json(app.accounts.look_at_link(&link.token).await?.into()))
}

/// Sign in with a one-time link, which is then used up
#[utoipa::path(post, path = "/auth/link", tag = "auth", request_body = LinkToken,
    responses((status = 200, body = SignedIn), (status = 410, body = Problem)))]
async fn use_link(
    State(app): State<Shared>,
    Peer(client): Peer,
    base: Base,
    Body(link): Body<LinkToken>,
) -> Result<impl IntoResponse, Problem> {
    let tokens = app.accounts.sign_in_by_link(&link.token, &client).await?;
    signed_in(&app, &base, tokens).await
}

/// A new password for the account of a reset link.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ResetBody {
    /// Token of the link.
    token: String,
    /// 8 to 1,024 bytes.
    #[schema(format = Password)]
    password: String,
    /// Keeps the account's API keys; by default they are revoked.
    #[serde(default)]
    keep_keys: bool,
}

/// Set a new password with a reset link and sign in; all other sessions end
#[utoipa::path(post, path = "/auth/password/reset", tag = "auth", request_body = ResetBody,
    responses((status = 200, body = SignedIn), (status = 410, body = Problem), (status = 422, body = Problem)))]
async fn reset(
    State(app): State<Shared>,
    Peer(client): Peer,
    base: Base,
    Body(body): Body<ResetBody>,
) -> Result<impl IntoResponse, Problem> {
    let keys = if body.keep_keys { ApiKeys::Keep } else { ApiKeys::Revoke };
    let tokens = app.accounts.reset_password(&body.token, body.password, keys, &client).await?;
    signed_in(&app, &base, tokens).await
}
