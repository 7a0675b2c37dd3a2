//! `/mcp/servers/{server}/sign-in` and where browsers come back to: signing in at a server for all who use it.
//!
//! Whoever has begun a sign-in ends it, signed in here by the same account; what waited for it goes on by itself.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass::adapter::mcp::SignInReturn;

use crate::account::audit::Note;
use crate::http::Shared;
use crate::http::auth::page;
use crate::http::caller::Caller;
use crate::http::input::{Path, Query};
use crate::http::problem::Problem;
use crate::servers::SignInError;

/// The routes. What they answer is for one person and once.
pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(begin, end)).routes(routes!(finish))
}

/// Where browsers come back to, at the address that people reach the server by.
pub fn back(address: String) -> String {
    format!("{}/api/v1/mcp/callback", address.trim_end_matches('/'))
}

/// A sign-in that has begun.
#[derive(Debug, Serialize, ToSchema)]
struct Begun {
    /// Where the browser goes. The same account has to be signed in here when it comes back, within an hour.
    url: String,
}

/// Begins a sign-in at a server
///
/// One sign-in serves everybody who uses the server here: what its account may do there, all runs may ask for.
#[utoipa::path(post, path = "/mcp/servers/{server}/sign-in", tag = "mcp",
    params(("server" = String, Path, description = "the server's name")),
    responses((status = 200, body = Begun), (status = 401, body = Problem), (status = 403, body = Problem),
        (status = 404, body = Problem), (status = 422, body = Problem), (status = 502, body = Problem)))]
async fn begin(
    State(app): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Begun>, Problem> {
    caller.operates()?;
    let page = app.servers.begin_sign_in(&name, caller.user()).await?;
    app.accounts.record(Note::by(&caller.0, "mcp.sign_in_begun").on(&name)).await?;
    Ok(Json(Begun { url: page.url }))
}

/// Signs out at a server: its tokens are forgotten
#[utoipa::path(delete, path = "/mcp/servers/{server}/sign-in", tag = "mcp",
    params(("server" = String, Path, description = "the server's name")),
    responses((status = 204), (status = 401, body = Problem), (status = 403, body = Problem),
        (status = 404, body = Problem), (status = 422, body = Problem), (status = 502, body = Problem)))]
async fn end(
    State(app): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    caller.operates()?;
    app.servers.hub.sign_out(&name).await?;
    app.accounts.record(Note::by(&caller.0, "mcp.signed_out").on(&name)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What a browser comes back with.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Brought {
    /// The code to exchange.
    code: Option<String>,
    /// What was sent along.
    state: Option<String>,
    /// Who says so.
    iss: Option<String>,
    /// Why there is no code.
    error: Option<String>,
}

/// Come back from signing in at a server: what waited for it goes on
#[utoipa::path(get, path = "/mcp/callback", tag = "mcp", params(Brought),
    responses((status = 200, content_type = "text/html", body = String), (status = 401, body = Problem),
        (status = 403, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem),
        (status = 502, body = Problem)))]
async fn finish(
    State(app): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    Query(brought): Query<Brought>,
) -> Response {
    match ended(&app, &caller, brought).await {
        Ok(name) => {
            let body = format!(
                "<h1>Signed in</h1><p>Runs may use the server <b>{name}</b> now, and what waited for it goes on. \
                 You can close this page, or go <a href=\"/\">back to Windlass</a>."
            );
            page::page(StatusCode::OK, &body)
        }
        Err(problem) if takes_page(&headers) => page::refused(&problem),
        Err(problem) => problem.into_response(),
    }
}

/// Whether whoever asks is a browser that shows pages.
fn takes_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accepted.is_some_and(|accepted| accepted.contains("text/html"))
}

async fn ended(
    app: &Shared,
    caller: &Caller,
    Brought { code, state, iss, error }: Brought,
) -> Result<String, Problem> {
    caller.operates()?;
    let (Some(code), Some(state)) = (code, state) else {
        let said = crate::console::first_line(error.as_deref().unwrap_or("it brought no code"), 200);
        return Err(SignInError::Refused(said).into());
    };
    let back = SignInReturn { code, state, iss };
    let name = app.servers.finish_sign_in(&back, &caller.party()).await?;
    app.accounts.record(Note::by(&caller.0, "mcp.signed_in").on(&name)).await?;
    Ok(name)
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
