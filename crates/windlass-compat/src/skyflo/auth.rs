//! Account routes of the Command Center: sign-in, sign-out, registration, profile. (SK-R7, SK-P8..P10)
//!
//! The server defines accounts and permissions; this module maps their names. The server sends no mail: an
//! administrator's link resets a forgotten password.

use axum::Json;
use axum::extract::{Form, Request, State};
use axum::middleware::Next;
use axum::response::{AppendHeaders, IntoResponse, Response};
use http::header::{AUTHORIZATION, HeaderName};
use http::{HeaderMap, HeaderValue, StatusCode, request};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass::machine::Principal;
use windlass_server::account::Role;
use windlass_server::account::error::AccountError;
use windlass_server::account::key::ApiKeys;
use windlass_server::account::login::Registrant;
use windlass_server::account::people::member::MemberChange;
use windlass_server::account::people::user::User;
use windlass_server::account::sessions::session::FirstRefresh;
use windlass_server::account::sessions::session::{ACCESS_S, REFRESH_S, Tokens};
use windlass_server::http::Shared;
use windlass_server::http::caller::{Caller, Peer, own_page};
use windlass_server::http::cookie;
use windlass_server::http::cookie::Base;
use windlass_server::http::input::{Body, Path};
use windlass_server::http::problem::Problem;

use crate::date::iso;

/// The cookie with the access token. (SK-P9)
const ACCESS: &str = "auth_token";
/// The cookie with the refresh token. (SK-P9)
const REFRESH: &str = "refresh_token";
/// Minimum length of an accepted password in characters, also enforced at sign-in. (SK-R7)
const PASSWORD_MIN_CHARS: usize = 8;

type SetCookies = AppendHeaders<Vec<(HeaderName, String)>>;

/// Authenticates a browser by its cookie if it sends no `Authorization` header.
pub async fn by_cookie(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let base = Base::of(&parts, &app);
    if !parts.headers.contains_key(AUTHORIZATION)
        && let Some(token) = own_cookie(&base, &parts.headers, ACCESS)
        && let Ok(value) = HeaderValue::from_str(&format!("Bearer {token}"))
    {
        if let Err(problem) = of_no_other_page(&parts, &app) {
            return problem.into_response();
        }
        parts.headers.insert(AUTHORIZATION, value);
    }
    next.run(Request::from_parts(parts, body)).await
}

/// Returns the value of one of our cookies. With TLS, a browser must use the `__Host-` name, which no other host of the
/// site can set. A request without `Origin` or `Sec-Fetch-Site` comes from a proxy server, which forwards plain names.
fn own_cookie<'h>(base: &Base, headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let plain =
        || if names_page(headers) && base.name(name) != name { None } else { cookie::read(headers, name) };
    base.read(headers, name).or_else(plain)
}

/// Sets one of our cookies under the name that clients know and, with TLS, under the `__Host-` name as well.
fn set(base: &Base, name: &str, value: &str, seconds: u64) -> Vec<(HeaderName, String)> {
    let mut cookies = vec![base.set(name, value, seconds, "/")];
    if base.name(name) != name {
        cookies.push(base.set_own(name, value, seconds));
    }
    cookies
}

/// Whether the request's cookie belongs to a current session.
pub async fn is_known(headers: &HeaderMap, app: &Shared) -> bool {
    let named = [ACCESS.to_owned(), format!("__Host-{ACCESS}")];
    let Some(token) = named.iter().find_map(|name| cookie::read(headers, name)) else { return false };
    app.accounts.by_token(token).await.is_ok_and(|identity| identity.is_ok())
}

/// Rejects a browser request from a foreign page. A request without the page's origin comes from the Command
/// Center's server, which forwards cookies.
fn of_no_other_page(parts: &request::Parts, app: &Shared) -> Result<(), Problem> {
    if names_page(&parts.headers) { own_page(parts, app) } else { Ok(()) }
}

fn names_page(headers: &HeaderMap) -> bool {
    ["origin", "sec-fetch-site"].iter().any(|name| headers.contains_key(*name))
}

/// Encodes a user, with the same members in every response. (SK-R7)
fn told(user: &User) -> Value {
    let is_admin = user.role == Role::Admin;
    json!({
        "id": user.id.as_str(),
        "email": user.email,
        "full_name": user.name,
        "is_active": user.active,
        "is_superuser": is_admin,
        // An administrator or the invitation set the address.
        "is_verified": true,
        "role": user.role.word(),
        "created_at": iso(user.created_at),
    })
}

/// The sign-in form of OAuth 2.
#[derive(Deserialize)]
pub struct Login {
    username: String,
    password: String,
}

pub async fn login(
    State(app): State<Shared>,
    Peer(client): Peer,
    Form(login): Form<Login>,
) -> Result<Json<Value>, Problem> {
    match app.accounts.login(&login.username, login.password, &client, FirstRefresh::OnRequest).await {
        Ok(tokens) => Ok(Json(json!({"access_token": tokens.access, "token_type": "bearer"}))),
        Err(AccountError::WrongLogin) => Err(bad("LOGIN_BAD_CREDENTIALS")),
        Err(error) => Err(error.into()),
    }
}

/// Creates a 400 response with a code that clients know.
fn bad(word: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, word.to_ascii_lowercase(), word)
}

/// Ends the session of the access token.
pub async fn logout_session(State(app): State<Shared>, caller: Caller) -> Result<StatusCode, Problem> {
    app.accounts.end_session(&caller.0, caller.session()?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Ends the session of the refresh token and removes the cookies.
pub async fn logout(
    State(app): State<Shared>,
    base: Base,
    request: Request,
) -> Result<(SetCookies, Json<Value>), Problem> {
    let (parts, _) = request.into_parts();
    if let Some(token) = own_cookie(&base, &parts.headers, REFRESH) {
        of_no_other_page(&parts, &app)?;
        app.accounts.end_by_refresh(token).await?;
    }
    Ok((signed_out(&base), Json(json!({"success": true}))))
}

fn signed_out(base: &Base) -> SetCookies {
    AppendHeaders([set(base, ACCESS, "", 0), set(base, REFRESH, "", 0)].concat())
}

/// Issues the refresh token. Each sign-in may request it once.
pub async fn issue(State(app): State<Shared>, caller: Caller) -> Result<Json<Value>, Problem> {
    let token = app.accounts.issue_refresh(&caller.0, caller.session()?).await?;
    Ok(Json(json!({"refresh_token": token, "expires_in": REFRESH_S})))
}

/// Exchanges the single-use refresh token in the cookie for new tokens. Removes the
/// cookies if the token is invalid. (SK-P8)
pub async fn refresh(
    State(app): State<Shared>,
    Peer(client): Peer,
    base: Base,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, _) = request.into_parts();
    let Some(token) = own_cookie(&base, &parts.headers, REFRESH) else {
        return Ok((signed_out(&base), Problem::unauthenticated("Refresh token missing")).into_response());
    };
    of_no_other_page(&parts, &app)?;
    let tokens: Tokens = match app.accounts.refresh_session(token, &client).await {
        Ok(tokens) => tokens,
        Err(AccountError::Unknown(_)) => {
            return Ok((signed_out(&base), Problem::unauthenticated("Refresh token invalid")).into_response());
        }
        Err(error) => return Err(error.into()),
    };
    let mut cookies = set(&base, ACCESS, &tokens.access, ACCESS_S);
    cookies.extend(tokens.refresh.iter().flat_map(|token| set(&base, REFRESH, token, REFRESH_S)));
    let user = told(&tokens.user);
    let body = json!({"access_token": tokens.access, "token_type": "bearer", "user": user});
    Ok((AppendHeaders(cookies), Json(body)).into_response())
}

/// An account to register. Other members, such as a role, are ignored.
#[derive(Deserialize)]
pub struct Register {
    email: String,
    password: String,
    #[serde(default)]
    full_name: Option<String>,
    /// The token of an invitation, if the server requires one.
    #[serde(default)]
    invite: Option<String>,
}

/// Registers an account. (SK-X14)
pub async fn register(
    State(app): State<Shared>,
    Peer(client): Peer,
    Body(body): Body<Register>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let Register { email, password, full_name, invite } = body;
    let draft = Registrant { email, password, name: full_name.unwrap_or_default(), invite };
    let registered = match draft.invite.is_none() && is_first_open(&app).await? {
        true => app.accounts.register_first(draft, &client).await,
        false => app.accounts.register(draft, app.config.settings.server.registration(), &client).await,
    };
    match registered {
        Ok(tokens) => Ok((StatusCode::CREATED, Json(told(&tokens.user)))),
        Err(AccountError::Taken { .. }) => Err(bad("REGISTER_USER_ALREADY_EXISTS")),
        Err(error) => Err(error.into()),
    }
}

/// Whether the next registered account becomes the administrator. The Command Center then shows its registration form
/// instead of the sign-in. (SK-P10)
pub async fn is_admin_user(State(app): State<Shared>) -> Result<Json<Value>, Problem> {
    Ok(Json(json!({"is_admin": is_first_open(&app).await?})))
}

/// Whether the settings let the first account register in this dialect, and no account exists yet.
async fn is_first_open(app: &Shared) -> Result<bool, Problem> {
    let is_on = app.config.settings.server.dialect.skyflo.first_registration();
    Ok(is_on && !app.accounts.is_registered().await?)
}

pub async fn me(State(app): State<Shared>, caller: Caller) -> Result<Json<Value>, Problem> {
    caller.reads()?;
    let member = app.accounts.member(caller.workspace(), caller.user()).await?;
    Ok(Json(told(&member.user)))
}

/// A change of an account. Users may change only their own name; administrators may change the other members.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Change {
    full_name: Option<String>,
    email: Option<String>,
    role: Option<Role>,
    is_active: Option<bool>,
}

/// Changes the caller's own name.
pub async fn change_me(
    State(app): State<Shared>,
    caller: Caller,
    Peer(client): Peer,
    Body(change): Body<Change>,
) -> Result<Json<Value>, Problem> {
    caller.manages_itself()?;
    if change.role.is_some() || change.is_active.is_some() || change.email.is_some() {
        return Err(Problem::forbidden(
            "only an administrator can change an address, a role, or who may sign in",
        ));
    }
    let change = MemberChange { name: change.full_name, ..MemberChange::default() };
    let member = app.accounts.change_self(&caller.0, change, None, &client).await?;
    Ok(Json(told(&member.user)))
}

#[derive(Deserialize)]
pub struct NewPassword {
    current_password: String,
    new_password: String,
}

/// Changes the caller's password and ends all other sessions.
pub async fn change_password(
    State(app): State<Shared>,
    caller: Caller,
    Peer(client): Peer,
    Body(body): Body<NewPassword>,
) -> Result<Json<Value>, Problem> {
    caller.session()?;
    let NewPassword { current_password, new_password } = body;
    if [&current_password, &new_password].iter().any(|it| it.chars().count() < PASSWORD_MIN_CHARS) {
        return Err(Problem::invalid(format!(
            "a password must have at least {PASSWORD_MIN_CHARS} characters"
        )));
    }
    let current = Some(current_password);
    match app.accounts.change_password(&caller.0, current, new_password, ApiKeys::Keep, &client).await {
        Ok(()) => Ok(Json(json!({"message": "Password updated successfully"}))),
        Err(AccountError::WrongPassword) => {
            Err(Problem::new(StatusCode::BAD_REQUEST, "wrong_password", "Current password is incorrect"))
        }
        Err(error) => Err(error.into()),
    }
}

/// Responds to a request for mail. The server sends no mail, and the response does
/// not reveal whether the address exists.
pub async fn ask_for_mail() -> (StatusCode, Json<Value>) {
    (StatusCode::ACCEPTED, Json(Value::Null))
}

/// Rejects every mail token, because no mail was sent.
pub async fn verify() -> Problem {
    bad("VERIFY_USER_BAD_TOKEN")
}

/// A new password, with the token of an administrator's link.
#[derive(Deserialize)]
pub struct Reset {
    token: String,
    password: String,
}

pub async fn reset(
    State(app): State<Shared>,
    Peer(client): Peer,
    Body(reset): Body<Reset>,
) -> Result<Json<Value>, Problem> {
    match app.accounts.reset_password(&reset.token, reset.password, ApiKeys::Revoke, &client).await {
        Ok(_) => Ok(Json(Value::Null)),
        Err(AccountError::Link) => Err(bad("RESET_PASSWORD_BAD_TOKEN")),
        Err(error) => Err(error.into()),
    }
}

pub async fn user(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<Principal>,
) -> Result<Json<Value>, Problem> {
    caller.administers()?;
    Ok(Json(told(&app.accounts.member(caller.workspace(), &id).await?.user)))
}

/// Changes an account. Only administrators may call it.
pub async fn change_user(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<Principal>,
    Body(change): Body<Change>,
) -> Result<Json<Value>, Problem> {
    caller.administers()?;
    let Change { full_name, email, role, is_active } = change;
    let change = MemberChange { name: full_name, email, role, active: is_active, credit_micro_usd: None };
    Ok(Json(told(&app.accounts.change_member(&caller.0, &id, &change, None).await?.user)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_tls_a_browser_comes_by_a_cookie_that_no_neighbour_sets() {
        let (tls, clear) = (Base::at("https://a.example.com".into()), Base::at("http://127.0.0.1:1".into()));
        let found = |base: &Base, cookies: &str, page: bool| {
            let mut headers = HeaderMap::new();
            headers.insert("cookie", cookies.parse().unwrap());
            if page {
                headers.insert("sec-fetch-site", "same-origin".parse().unwrap());
            }
            own_cookie(base, &headers, ACCESS).map(str::to_owned)
        };
        let both = "auth_token=planted; __Host-auth_token=own";
        assert_eq!(found(&tls, both, true).as_deref(), Some("own"));
        assert_eq!(found(&tls, "auth_token=planted", true), None);
        assert_eq!(found(&tls, "auth_token=own", false).as_deref(), Some("own"));
        assert_eq!(found(&clear, "auth_token=own", true).as_deref(), Some("own"));
        let names = |base: &Base| set(base, ACCESS, "v", 9).into_iter().map(|(_, it)| it).collect::<Vec<_>>();
        assert_eq!((names(&tls).len(), names(&clear).len()), (2, 1));
        assert!(names(&tls)[1].starts_with("__Host-auth_token=v; HttpOnly"), "{:?}", names(&tls));
    }
}
