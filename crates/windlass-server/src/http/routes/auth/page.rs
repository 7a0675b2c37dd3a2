//! `/auth/link`: an HTML page for one-time links that are opened in a browser. The page needs no script and no other
//! file.
//!
//! Opening the page does not use the link, because mail scanners and previews open links, too. Only the button of the
//! page uses the link.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Form, Router};
use http::{StatusCode, header};
use serde::Deserialize;

use crate::account::error::AccountError;
use crate::account::key::ApiKeys;
use crate::account::link::{Link, LinkUse};
use crate::account::login::Registrant;
use crate::account::sessions::session::Tokens;
use crate::http::Shared;
use crate::http::caller::Peer;
use crate::http::cookie::Base;
use crate::http::input::Query;
use crate::http::problem::Problem;
use crate::page::{escaped, page};

/// Path of the page.
pub const PATH: &str = "/auth/link";

/// Returns the URL of a one-time link.
pub fn link(address: &str, token: &str) -> String {
    format!("{}{}?token={token}", address.trim_end_matches('/'), PATH)
}

/// The page to which the server redirects the browser after a sign-in.
const HOME: &str = "/";

pub fn routes() -> Router<Shared> {
    Router::new().route(PATH, get(show).post(submit))
}

#[derive(Deserialize)]
struct Token {
    token: String,
}

async fn show(State(app): State<Shared>, Query(query): Query<Token>) -> Response {
    match app.accounts.look_at_link(&query.token).await {
        Ok(link) => page(StatusCode::OK, &form(&link, &query.token, None)),
        Err(error) => failed(error),
    }
}

/// The submitted form.
#[derive(Deserialize)]
struct Filled {
    token: String,
    #[serde(default)]
    email: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    password: String,
    /// Present if the user has checked the box.
    #[serde(default)]
    keep_keys: Option<String>,
}

async fn submit(
    State(app): State<Shared>,
    Peer(client): Peer,
    base: Base,
    Form(filled): Form<Filled>,
) -> Response {
    let link = match app.accounts.look_at_link(&filled.token).await {
        Ok(link) => link,
        Err(error) => return failed(error),
    };
    let Filled { token, email, name, password, keep_keys } = filled;
    let done: Result<Tokens, AccountError> = match &link.used_for {
        LinkUse::SignIn { .. } => app.accounts.sign_in_by_link(&token, &client).await,
        LinkUse::Reset { .. } => {
            let keys = if keep_keys.is_some() { ApiKeys::Keep } else { ApiKeys::Revoke };
            app.accounts.reset_password(&token, password, keys, &client).await
        }
        LinkUse::Invite { .. } => {
            let draft = Registrant { email, password, name, invite: Some(token.clone()) };
            app.accounts.register(draft, app.config.settings.server.registration(), &client).await
        }
    };
    match done {
        Ok(tokens) => welcome(&base, &tokens),
        Err(AccountError::Link) => failed(AccountError::Link),
        // Show the form again, so that the user can correct the input.
        Err(error) => {
            let problem = Problem::from(error);
            page(problem.status, &form(&link, &token, Some(&problem.detail)))
        }
    }
}

/// Sets the session cookies and redirects to the UI.
pub fn welcome(base: &Base, tokens: &Tokens) -> Response {
    (StatusCode::SEE_OTHER, base.signed_in(tokens), [(header::LOCATION, HOME)]).into_response()
}

/// Renders a page that explains why a sign-in failed.
pub fn failed(error: AccountError) -> Response {
    refused(&error.into())
}

/// Renders a problem as a page, for browsers.
pub fn refused(problem: &Problem) -> Response {
    let hint = problem.hint.as_deref().unwrap_or_default();
    page(problem.status, &format!("<h1>{}</h1><p>{}</p>", escaped(&problem.detail), escaped(hint)))
}

fn form(link: &Link, token: &str, wrong: Option<&str>) -> String {
    const PASSWORD: &str = "<label>Password<input name=password type=password autocomplete=new-password \
        minlength=8 required></label>";
    let (title, fields, button) = match &link.used_for {
        LinkUse::SignIn { .. } => ("Sign in to Windlass", String::new(), "Sign in"),
        LinkUse::Reset { .. } => {
            let keep = "<label><input name=keep_keys type=checkbox value=yes> Keep my API keys</label>";
            ("Choose a new password", format!("{PASSWORD}{keep}"), "Save and sign in")
        }
        LinkUse::Invite { email, .. } => {
            let email = escaped(email.as_deref().unwrap_or_default());
            let fields = format!(
                "<label>E-mail<input name=email type=email autocomplete=username value=\"{email}\" required>\
                 </label><label>Name<input name=name autocomplete=name maxlength=100></label>{PASSWORD}"
            );
            ("Create a Windlass account", fields, "Create account")
        }
    };
    let wrong = wrong.map(|wrong| format!("<p role=alert>{}</p>", escaped(wrong))).unwrap_or_default();
    format!(
        "<h1>{title}</h1>{wrong}<form method=post action=\"{PATH}\">\
         <input type=hidden name=token value=\"{}\">{fields}<button>{button}</button></form>",
        escaped(token)
    )
}
