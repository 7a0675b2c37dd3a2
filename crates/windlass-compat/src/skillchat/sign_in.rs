//! Authentication: an account that signs in by the dialect's routes, or a guest if the settings admit guests. (WT-E7)
//!
//! The original has a single user, and its pages send no credential. So this dialect identifies a browser by a cookie
//! that no other route reads. An `Authorization` header takes precedence.

use axum::Json;
use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{AppendHeaders, IntoResponse, Response};
use http::header::{AUTHORIZATION, HeaderName, SET_COOKIE};
use http::{HeaderMap, HeaderValue, StatusCode, request};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_server::account::error::AccountError;
use windlass_server::account::login::Registrant;
use windlass_server::account::sessions::session::FirstRefresh;
use windlass_server::account::sessions::session::GUEST_S;
use windlass_server::account::sessions::session::{LASTING_S, Tokens};
use windlass_server::account::{Credential, Registration};
use windlass_server::http::Shared;
use windlass_server::http::caller::{Caller, GuestsWelcome, Peer, identify, own_page};
use windlass_server::http::cookie;
use windlass_server::http::cookie::Base;
use windlass_server::http::input::{Body, json_bytes};
use windlass_server::http::middleware::peer::Client;
use windlass_server::http::problem::Problem;
use windlass_server::http::state::origins::host;

/// The cookie with the access token.
const COOKIE: &str = "windlass_skillchat";
/// Value of `Retry-After` in seconds if no further guest can be admitted.
const FULL_RETRY_S: u64 = 3_600;

/// Authenticates a browser by its cookie if it sends no `Authorization` header. An invalid cookie is ignored.
pub async fn by_cookie(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    parts.extensions.insert(GuestsWelcome);
    let base = Base::of(&parts, &app);
    let renewed = match recognize(&app, &base, &mut parts).await {
        Ok(renewed) => renewed,
        Err(problem) => return problem.into_response(),
    };
    let mut response = next.run(Request::from_parts(parts, body)).await;
    // Login and logout routes set the cookie in their own responses.
    if let Some(token) = renewed.filter(|_| !response.headers().contains_key(SET_COOKIE)) {
        set(&mut response, base.set_own(COOKIE, &token, GUEST_S));
    }
    response
}

/// Authenticates the cookie of a request. Returns a new token if a guest's session was renewed.
async fn recognize(app: &Shared, base: &Base, parts: &mut request::Parts) -> Result<Option<String>, Problem> {
    if parts.headers.contains_key(AUTHORIZATION) {
        return Ok(None);
    }
    let Some(token) = base.read(&parts.headers, COOKIE).map(str::to_owned) else { return Ok(None) };
    let Ok(identity) = app.accounts.by_token(&token).await? else { return Ok(None) };
    of_no_other_page(parts, app)?;
    authorize(parts, &token);
    Ok(app.accounts.renew_guest(&identity).await?)
}

/// Rejects a browser request from a foreign page. A request without the page's origin comes from a proxy
/// server, which forwards plain cookies.
fn of_no_other_page(parts: &request::Parts, app: &Shared) -> Result<(), Problem> {
    let names_page = ["origin", "sec-fetch-site"].iter().any(|name| parts.headers.contains_key(*name));
    if names_page { own_page(parts, app) } else { Ok(()) }
}

/// Adds the token as an `Authorization` header, where handlers look for it.
fn authorize(parts: &mut request::Parts, token: &str) {
    // Tokens consist of letters, digits, `.`, `-` and `_`.
    if let Ok(value) = HeaderValue::from_str(&format!("Bearer {token}")) {
        parts.headers.insert(AUTHORIZATION, value);
    }
}

fn set(response: &mut Response, header: (HeaderName, String)) {
    let (name, cookie) = header;
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(name, cookie);
    }
}

/// Validates the body of an unauthenticated request.
pub type BodyCheck = fn(&[u8]) -> Result<(), Problem>;

/// Admits an unauthenticated caller as a guest if the settings allow it and the body is valid. A request that would be
/// rejected creates no guest.
pub async fn admit_guest(
    State((app, check)): State<(Shared, Option<BodyCheck>)>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, mut body) = request.into_parts();
    let base = Base::of(&parts, &app);
    let cookie = match welcome(&app, check, &mut parts, &mut body).await {
        Ok(None) => None,
        Ok(Some(tokens)) => {
            authorize(&mut parts, &tokens.access);
            Some(base.set_own(COOKIE, &tokens.access, GUEST_S))
        }
        Err(problem) => return problem.into_response(),
    };
    let mut response = next.run(Request::from_parts(parts, body)).await;
    if let Some(cookie) = cookie {
        set(&mut response, cookie);
    }
    response
}

async fn welcome(
    app: &Shared,
    check: Option<BodyCheck>,
    parts: &mut request::Parts,
    body: &mut axum::body::Body,
) -> Result<Option<Tokens>, Problem> {
    let is_open = admits_guests(app, parts);
    if !is_open || parts.headers.contains_key(AUTHORIZATION) || identify(parts, app).await?.is_ok() {
        return Ok(None);
    }
    if let Some(check) = check {
        let request = Request::from_parts(parts.clone(), std::mem::take(body));
        let bytes = json_bytes(request, app).await?;
        check(&bytes)?;
        *body = bytes.into();
    }
    let Ok(Peer(client)) = Peer::from_request_parts(parts, app).await;
    match app.accounts.admit_guest(&client).await {
        Ok(tokens) => Ok(Some(tokens)),
        Err(AccountError::Refused { code, detail }) => {
            Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, detail)
                .hint("sign in, or try again later")
                .retry_after(FULL_RETRY_S))
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether guests are admitted: the settings allow them, and either registration is open or the caller is on this
/// machine.
fn admits_guests(app: &Shared, parts: &request::Parts) -> bool {
    let server = &app.config.settings.server;
    let is_here = || {
        let host = host(&parts.uri, &parts.headers).unwrap_or_default();
        let is_local = parts.extensions.get::<Client>().is_some_and(|client| client.local);
        is_local && app.origins.is_loopback(&host)
    };
    server.dialect.skillchat.admits_guests() && (server.registration() == Registration::Open || is_here())
}

/// Whether the request's cookie belongs to a current session.
pub async fn is_known(headers: &HeaderMap, app: &Shared) -> bool {
    let named = [COOKIE.to_owned(), format!("__Host-{COOKIE}")];
    let Some(token) = named.iter().find_map(|name| cookie::read(headers, name)) else { return false };
    app.accounts.by_token(token).await.is_ok_and(|identity| identity.is_ok())
}

#[derive(Deserialize)]
pub struct Login {
    email: String,
    password: String,
}

/// The cookies and the body of a sign-in response.
type SignedIn = (AppendHeaders<[(HeaderName, String); 1]>, Json<Value>);

pub async fn login(
    State(app): State<Shared>,
    Peer(client): Peer,
    base: Base,
    Body(login): Body<Login>,
) -> Result<SignedIn, Problem> {
    match app.accounts.login(&login.email, login.password, &client, FirstRefresh::Never).await {
        Ok(tokens) => Ok(signed_in(&base, &tokens)),
        Err(AccountError::WrongLogin) => {
            Err(Problem::new(StatusCode::UNAUTHORIZED, "invalid_credentials", "Invalid credentials"))
        }
        Err(error) => Err(error.into()),
    }
}

#[derive(Deserialize)]
pub struct Register {
    email: String,
    password: String,
    #[serde(default)]
    display_name: Option<String>,
    /// The token of an invitation, if the server requires one.
    #[serde(default)]
    invite: Option<String>,
}

/// Registers an account and signs it in.
pub async fn register(
    State(app): State<Shared>,
    Peer(client): Peer,
    base: Base,
    Body(body): Body<Register>,
) -> Result<SignedIn, Problem> {
    let Register { email, password, display_name, invite } = body;
    let draft = Registrant { email, password, name: display_name.unwrap_or_default(), invite };
    let registration = app.config.settings.server.registration();
    let tokens = app.accounts.register_for(draft, registration, &client, FirstRefresh::Never).await?;
    Ok(signed_in(&base, &tokens))
}

/// Creates the original's response with an additional cookie, because the original's pages do not store the token.
fn signed_in(base: &Base, tokens: &Tokens) -> SignedIn {
    let user = &tokens.user;
    let profile = json!({"id": user.id.as_str(), "email": user.email, "display_name": user.name.as_str()});
    let body = json!({"access_token": tokens.access, "token_type": "bearer", "profile": profile});
    (AppendHeaders([base.set_own(COOKIE, &tokens.access, LASTING_S)]), Json(body))
}

/// Ends the caller's session and removes the cookie.
pub async fn logout(
    State(app): State<Shared>,
    base: Base,
    Caller(identity): Caller,
) -> Result<SignedIn, Problem> {
    match &identity.credential {
        Credential::Session(id) | Credential::Guest(id) => app.accounts.end_session(&identity, id).await?,
        Credential::Key { .. } => {
            let problem = Problem::forbidden("an API key cannot sign out");
            return Err(problem.hint("revoke it with `DELETE /api/v1/keys/{key}`"));
        }
    }
    Ok((AppendHeaders([base.set_own(COOKIE, "", 0)]), Json(json!({"status": "ok"}))))
}
