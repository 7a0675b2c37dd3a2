//! `/threads/{thread}/messages`: what is said in a conversation.

use axum::extract::State;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass::machine::ThreadId;

use super::Shared;
use super::caller::Caller;
use super::idempotency::{Claimed, IdempotencyKey};
use super::input::{Body, Path};
use super::problem::Problem;
use super::send::{NewMessage, Sent, send};

/// The routes.
pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(post))
}

/// Sends a message to a conversation
///
/// Where no run is active it starts one; else `when_busy` says what happens.
#[utoipa::path(post, path = "/threads/{thread}/messages", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id"), IdempotencyKey), request_body = NewMessage,
    responses((status = 201, body = Sent, description = "the run has begun",
            headers(("Location" = String, description = "the run"))),
        (status = 202, body = Sent, description = "the message waits behind another run",
            headers(("Location" = String, description = "the run")))))]
async fn post(
    State(app): State<Shared>,
    caller: Caller,
    claimed: Claimed,
    Path(thread): Path<ThreadId>,
    Body(new): Body<NewMessage>,
) -> Result<Response, Problem> {
    caller.runs()?;
    send(&app, &caller, &claimed, Some(thread), new).await
}
