//! `/mcp/servers/{server}/sign-in` and the OAuth callback: signing in to an MCP server on behalf of all users.
//!
//! The account that starts a sign-in must also finish it; waiting calls then resume. The callback asks for a
//! confirmation, because a link could contain the authorization code of another person.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass::mcp::SignInReturn;

use crate::account::audit::Note;
use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::input::{Form, Path, Query};
use crate::http::operator::Operator;
use crate::http::problem::Problem;
use crate::http::routes::auth::page::refused;
use crate::page::page;
use crate::servers::{BegunBy, SignInError, question};

/// Builds the routes. Responses are for one user and must not be replayed, so these routes do not support idempotency
/// keys.
pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(begin, end)).routes(routes!(come_back, finish))
}

/// Returns the redirect URI, at the public address of the server.
pub fn back(address: String) -> String {
    format!("{}/api/v1/mcp/callback", address.trim_end_matches('/'))
}

/// A sign-in that was started.
#[derive(Debug, Serialize, ToSchema)]
struct Begun {
    /// URL to open in a browser. The same account must be signed in here when the browser returns, within an hour.
    url: String,
}

/// Start a sign-in to an MCP server
///
/// One sign-in serves all users: every run can use the permissions of its account.
#[utoipa::path(post, path = "/mcp/servers/{server}/sign-in", tag = "mcp",
    params(("server" = String, Path, description = "the server's name")),
    responses((status = 200, body = Begun)))]
async fn begin(
    State(app): State<Shared>,
    Operator(caller): Operator,
    Path(name): Path<String>,
) -> Result<Json<Begun>, Problem> {
    let page = app.servers.begin_sign_in(&name, caller.user()).await?;
    app.accounts.record(Note::by(&caller.0, "mcp.sign_in_begun").on(&name)).await?;
    Ok(Json(Begun { url: page.url }))
}

/// Sign out of an MCP server and delete its tokens
#[utoipa::path(delete, path = "/mcp/servers/{server}/sign-in", tag = "mcp",
    params(("server" = String, Path, description = "the server's name")),
    responses((status = 204)))]
async fn end(
    State(app): State<Shared>,
    Operator(caller): Operator,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    app.servers.hub.server(&name)?;
    app.accounts.record(Note::by(&caller.0, "mcp.signed_out").on(&name)).await?;
    app.servers.hub.sign_out(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Query parameters with which the browser returns.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Brought {
    /// Authorization code to exchange.
    code: Option<String>,
    /// State parameter of the authorization request.
    state: Option<String>,
    /// Issuer identifier.
    iss: Option<String>,
    /// Error code if there is no authorization code.
    error: Option<String>,
}

/// OAuth callback: shows a page that asks for a confirmation
///
/// The sign-in is finished by the button of the page.
#[utoipa::path(get, path = "/mcp/callback", tag = "mcp", params(Brought),
    responses((status = 200, content_type = "text/html", body = String)))]
async fn come_back(
    State(app): State<Shared>,
    operator: Result<Operator, Problem>,
    headers: HeaderMap,
    brought: Result<Query<Brought>, Problem>,
) -> Response {
    let asked = async { ask(&app, &operator?.0, brought?.0).await };
    shown(asked.await, &headers)
}

async fn ask(
    app: &Shared,
    caller: &Caller,
    Brought { code, state, iss, error }: Brought,
) -> Result<Response, Problem> {
    let (Some(code), Some(state)) = (code, state) else {
        let said = crate::text::first_line(
            error.as_deref().unwrap_or("the redirect has no authorization code"),
            200,
        );
        return Err(SignInError::Refused(said).into());
    };
    let open = app.servers.open_sign_in(&state, caller.user()).await?;
    let owner = match &open.begun {
        BegunBy::Call(Some(owner)) => {
            let user = app.accounts.refresh().await?.find(owner);
            Some(user.and_then(|user| user.email.clone()).unwrap_or_else(|| owner.to_string()))
        }
        BegunBy::Call(None) | BegunBy::Oneself => None,
    };
    Ok(question(&open, owner.as_deref(), &SignInReturn { code, state, iss }))
}

/// The confirmation form.
#[derive(Deserialize, ToSchema)]
struct Confirmed {
    /// Authorization code to exchange.
    code: String,
    /// State parameter of the authorization request.
    state: String,
    /// Issuer identifier.
    iss: Option<String>,
}

/// Finish a sign-in to an MCP server; waiting calls resume
#[utoipa::path(post, path = "/mcp/callback", tag = "mcp",
    request_body(content = Confirmed, content_type = "application/x-www-form-urlencoded"),
    responses((status = 200, content_type = "text/html", body = String)))]
async fn finish(
    State(app): State<Shared>,
    operator: Result<Operator, Problem>,
    headers: HeaderMap,
    confirmed: Result<Form<Confirmed>, Problem>,
) -> Response {
    let ended = async { end_it(&app, &operator?.0, confirmed?.0).await };
    shown(ended.await, &headers)
}

async fn end_it(
    app: &Shared,
    caller: &Caller,
    Confirmed { code, state, iss }: Confirmed,
) -> Result<Response, Problem> {
    let note = |action: &str, name: &str| Note::by(&caller.0, action).on(name);
    let name = app.servers.open_sign_in(&state, caller.user()).await?.server;
    // Write the audit entry of the attempt before it can succeed or fail.
    app.accounts.record(note("mcp.signing_in", &name)).await?;
    let back = SignInReturn { code, state, iss };
    app.servers.finish_sign_in(&back, &caller.party()).await?;
    app.accounts.record(note("mcp.signed_in", &name)).await?;
    let body = format!(
        "<h1>Signed in</h1><p>Runs can now use the server <b>{name}</b>, and waiting calls resume. You can \
         close this page, or go <a href=\"/\">back to Windlass</a>."
    );
    Ok(page(StatusCode::OK, &body))
}

/// Browsers receive an HTML page; programs receive the problem.
fn shown(outcome: Result<Response, Problem>, headers: &HeaderMap) -> Response {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    match outcome {
        Ok(page) => page,
        Err(problem) if accepted.is_some_and(|accepted| accepted.contains("text/html")) => refused(&problem),
        Err(problem) => problem.into_response(),
    }
}

impl From<SignInError> for Problem {
    fn from(error: SignInError) -> Self {
        let said = error.to_string();
        match error {
            SignInError::Mcp(error) => error.into(),
            SignInError::Unknown => Self::conflict("closed", said),
            SignInError::Another => Self::forbidden(said),
            SignInError::Refused(_) => Self::invalid(said),
            SignInError::Record(error) => error.into(),
        }
    }
}
