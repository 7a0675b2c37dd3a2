//! Accounts as the Command Center asks for them: signing in and out, registering, one's own profile. (SK-R7, SK-P8..P10)
//!
//! The accounts and what they may do are the server's own; here are only the other names of it. No mail is sent: a
//! forgotten password is chosen anew by an administrator's link.

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
/// The shortest password, in characters, also of one that is only compared. (SK-R7)
const PASSWORD_MIN_CHARS: usize = 8;

/// Cookies that an answer sets.
type SetCookies = AppendHeaders<Vec<(HeaderName, String)>>;

/// Lets a browser in by its cookie, where it sends nothing better.
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

/// One of our own cookies in a request. With TLS a browser's has a name that no neighbour on the same site can set. A
/// request without `Origin` or `Sec-Fetch-Site` comes from a proxy server, which forwards plain cookie names.
fn own_cookie<'h>(base: &Base, headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let plain =
        || if names_page(headers) && base.name(name) != name { None } else { cookie::read(headers, name) };
    base.read(headers, name).or_else(plain)
}

/// Sets one of our own cookies: under the name that these clients know, and under the one that a neighbour cannot set.
fn set(base: &Base, name: &str, value: &str, seconds: u64) -> Vec<(HeaderName, String)> {
    let mut cookies = vec![base.set(name, value, seconds, "/")];
    if base.name(name) != name {
        cookies.push(base.set_own(name, value, seconds));
    }
    cookies
}

/// Whether a browser's cookie is that of somebody who is known.
pub async fn is_known(headers: &HeaderMap, app: &Shared) -> bool {
    let named = [ACCESS.to_owned(), format!("__Host-{ACCESS}")];
    let Some(token) = named.iter().find_map(|name| cookie::read(headers, name)) else { return false };
    app.accounts.by_token(token).await.is_ok_and(|identity| identity.is_ok())
}

/// Refuses what a browser sends for a page that is not ours. What names no page is no browser: the Command Center's own
/// server hands its cookies on that way.
fn of_no_other_page(parts: &request::Parts, app: &Shared) -> Result<(), Problem> {
    if names_page(&parts.headers) { own_page(parts, app) } else { Ok(()) }
}

fn names_page(headers: &HeaderMap) -> bool {
    ["origin", "sec-fetch-site"].iter().any(|name| headers.contains_key(*name))
}

/// A user as every answer about one shows it. (SK-R7)
fn told(user: &User) -> Value {
    let is_admin = user.role == Role::Admin;
    json!({
        "id": user.id.as_str(),
        "email": user.email,
        "full_name": user.name,
        "is_active": user.active,
        "is_superuser": is_admin,
        // An address is an administrator's word, or that of whoever was invited under it.
        "is_verified": true,
        "role": user.role.word(),
        "created_at": iso(user.created_at),
    })
}

/// The form of OAuth 2 by which people sign in.
#[derive(Deserialize)]
pub struct Login {
    username: String,
    password: String,
}

/// Signs in.
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

/// A refusal in the one word that these clients know.
fn bad(word: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, word.to_ascii_lowercase(), word)
}

/// Ends the session that the access token belongs to.
pub async fn logout_session(State(app): State<Shared>, caller: Caller) -> Result<StatusCode, Problem> {
    app.accounts.end_session(&caller.0, caller.session()?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Ends the session that the refresh token belongs to, and removes the cookies.
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

/// Gives the refresh token, once, to whoever has just signed in.
pub async fn issue(State(app): State<Shared>, caller: Caller) -> Result<Json<Value>, Problem> {
    let token = app.accounts.issue_refresh(&caller.0, caller.session()?).await?;
    Ok(Json(json!({"refresh_token": token, "expires_in": REFRESH_S})))
}

/// Gives the next tokens for the refresh token in the cookie, which is good once; else removes the cookies. (SK-P8)
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

/// An account that is to be registered. What else a client sends of it, such as a role, is not its to say.
#[derive(Deserialize)]
pub struct Register {
    email: String,
    password: String,
    #[serde(default)]
    full_name: Option<String>,
    /// The token of an invitation, where the server wants one.
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

/// Whether the next account that registers here becomes the administrator: then the Command Center shows its form for
/// that account instead of the sign-in. (SK-P10)
pub async fn is_admin_user(State(app): State<Shared>) -> Result<Json<Value>, Problem> {
    Ok(Json(json!({"is_admin": is_first_open(&app).await?})))
}

/// Whether the settings let the first account register here, and there is none yet.
async fn is_first_open(app: &Shared) -> Result<bool, Problem> {
    let is_on = app.config.settings.server.dialect.skyflo.first_registration();
    Ok(is_on && !app.accounts.is_registered().await?)
}

/// Who asks.
pub async fn me(State(app): State<Shared>, caller: Caller) -> Result<Json<Value>, Problem> {
    caller.reads()?;
    let member = app.accounts.member(caller.workspace(), caller.user()).await?;
    Ok(Json(told(&member.user)))
}

/// What people change of an account. Of their own, only the name; the rest is an administrator's.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Change {
    full_name: Option<String>,
    email: Option<String>,
    role: Option<Role>,
    is_active: Option<bool>,
}

/// Changes one's own name.
pub async fn change_me(
    State(app): State<Shared>,
    caller: Caller,
    Peer(client): Peer,
    Body(change): Body<Change>,
) -> Result<Json<Value>, Problem> {
    caller.manages_itself()?;
    if change.role.is_some() || change.is_active.is_some() || change.email.is_some() {
        return Err(Problem::forbidden("an administrator changes an address, a role, and who may sign in"));
    }
    let change = MemberChange { name: change.full_name, ..MemberChange::default() };
    let member = app.accounts.change_self(&caller.0, change, None, &client).await?;
    Ok(Json(told(&member.user)))
}

/// Another password.
#[derive(Deserialize)]
pub struct NewPassword {
    current_password: String,
    new_password: String,
}

/// Changes one's own password; all other sessions end.
pub async fn change_password(
    State(app): State<Shared>,
    caller: Caller,
    Peer(client): Peer,
    Body(body): Body<NewPassword>,
) -> Result<Json<Value>, Problem> {
    caller.session()?;
    let NewPassword { current_password, new_password } = body;
    if [&current_password, &new_password].iter().any(|it| it.chars().count() < PASSWORD_MIN_CHARS) {
        return Err(Problem::invalid(format!("a password has at least {PASSWORD_MIN_CHARS} characters")));
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

/// Somebody wants a mail, whose address it may be or not: none is sent, and that is not told apart.
pub async fn ask_for_mail() -> (StatusCode, Json<Value>) {
    (StatusCode::ACCEPTED, Json(Value::Null))
}

/// A token of a mail that was never sent.
pub async fn verify() -> Problem {
    bad("VERIFY_USER_BAD_TOKEN")
}

/// A new password by an administrator's link.
#[derive(Deserialize)]
pub struct Reset {
    token: String,
    password: String,
}

/// Chooses a new password.
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

/// An account, for an administrator.
pub async fn user(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<Principal>,
) -> Result<Json<Value>, Problem> {
    caller.administers()?;
    Ok(Json(told(&app.accounts.member(caller.workspace(), &id).await?.user)))
}

/// Changes an account, as an administrator.
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
