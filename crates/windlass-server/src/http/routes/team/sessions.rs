//! `/team/members/{member}/sessions`: an administrator lists and ends the sessions of a member.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use windlass::machine::Principal;

use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::input::Path;
use crate::http::problem::Problem;
use crate::http::routes::auth::me::Sessions;

pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(list, end_all)).routes(routes!(end))
}

/// List the sessions of a member
#[utoipa::path(get, path = "/team/members/{member}/sessions", tag = "team",
    params(("member" = String, Path, description = "the account's id")),
    responses((status = 200, body = Sessions), (status = 403, body = Problem), (status = 404, body = Problem)))]
async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<Principal>,
) -> Result<Json<Sessions>, Problem> {
    caller.administers()?;
    app.accounts.member(caller.workspace(), &id).await?;
    Ok(Json(Sessions::of(app.accounts.sessions(&id).await?, &caller)))
}

/// End all sessions of a member; API keys remain valid
#[utoipa::path(delete, path = "/team/members/{member}/sessions", tag = "team",
    params(("member" = String, Path, description = "the account's id")),
    responses((status = 204), (status = 403, body = Problem), (status = 404, body = Problem)))]
async fn end_all(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<Principal>,
) -> Result<StatusCode, Problem> {
    caller.administers()?;
    app.accounts.end_sessions_of(&caller.0, &id, None).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// End a session of a member
#[utoipa::path(delete, path = "/team/members/{member}/sessions/{session}", tag = "team",
    params(("member" = String, Path, description = "the account's id"),
        ("session" = String, Path, description = "the session's id")),
    responses((status = 204), (status = 403, body = Problem), (status = 404, body = Problem)))]
async fn end(
    State(app): State<Shared>,
    caller: Caller,
    Path((id, session)): Path<(Principal, String)>,
) -> Result<StatusCode, Problem> {
    caller.administers()?;
    app.accounts.end_sessions_of(&caller.0, &id, Some(&session)).await?;
    Ok(StatusCode::NO_CONTENT)
}
