//! `/integrations`: the external systems that a workspace is connected to. No response contains credentials.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::account::audit::Note;
use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::input::{Body, Path, Query};
use crate::http::middleware::idempotency::IdempotencyKey;
use crate::http::problem::Problem;
use crate::integration::{Checked, Integration, IntegrationChange, IntegrationDraft, IntegrationError};

pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(list, add)).routes(routes!(change, remove)).routes(routes!(check))
}

/// A workspace's integrations.
#[derive(Debug, Serialize, ToSchema)]
struct IntegrationList {
    /// At most one per provider.
    data: Vec<Integration>,
}

/// Filters for integrations.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Filter {
    /// Only those of this provider.
    provider: Option<String>,
}

/// List the integrations of the workspace
#[utoipa::path(get, path = "/integrations", tag = "integrations", params(Filter),
    responses((status = 200, body = IntegrationList), (status = 401, body = Problem)))]
async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Query(filter): Query<Filter>,
) -> Result<Json<IntegrationList>, Problem> {
    caller.reads()?;
    let data = app.integrations.list(caller.workspace(), filter.provider.as_deref()).await?;
    Ok(Json(IntegrationList { data }))
}

/// Connect an external system
#[utoipa::path(post, path = "/integrations", tag = "integrations", params(IdempotencyKey),
    request_body = IntegrationDraft,
    responses((status = 201, body = Integration), (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 403, body = Problem), (status = 409, body = Problem), (status = 413, body = Problem),
        (status = 415, body = Problem), (status = 422, body = Problem)))]
async fn add(
    State(app): State<Shared>,
    caller: Caller,
    Body(draft): Body<IntegrationDraft>,
) -> Result<(StatusCode, Json<Integration>), Problem> {
    Ok((StatusCode::CREATED, Json(connect(&app, &caller, draft).await?)))
}

/// Connects a system. The caller must be an administrator.
pub async fn connect(app: &Shared, caller: &Caller, draft: IntegrationDraft) -> Result<Integration, Problem> {
    caller.administers()?;
    let made = app.integrations.add(caller.workspace(), draft).await?;
    record(app, caller, "integration.made", &made).await?;
    Ok(made)
}

/// Change an integration; new credentials replace the old ones
#[utoipa::path(patch, path = "/integrations/{integration}", tag = "integrations",
    params(("integration" = String, Path, description = "the integration's id")),
    request_body = IntegrationChange,
    responses((status = 200, body = Integration), (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 403, body = Problem), (status = 404, body = Problem), (status = 412, body = Problem),
        (status = 413, body = Problem), (status = 415, body = Problem), (status = 422, body = Problem)))]
async fn change(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
    Body(change): Body<IntegrationChange>,
) -> Result<Json<Integration>, Problem> {
    Ok(Json(reconnect(&app, &caller, &id, change).await?))
}

/// Changes an integration. The caller must be an administrator.
pub async fn reconnect(
    app: &Shared,
    caller: &Caller,
    id: &str,
    change: IntegrationChange,
) -> Result<Integration, Problem> {
    caller.administers()?;
    let action = match change.credentials {
        Some(_) => "integration.credentials_changed",
        None => "integration.changed",
    };
    let changed = app.integrations.change(caller.workspace(), id, change).await?;
    record(app, caller, action, &changed).await?;
    Ok(changed)
}

/// Delete an integration and its credentials
#[utoipa::path(delete, path = "/integrations/{integration}", tag = "integrations",
    params(("integration" = String, Path, description = "the integration's id")),
    responses((status = 204), (status = 401, body = Problem), (status = 403, body = Problem),
        (status = 404, body = Problem), (status = 412, body = Problem)))]
async fn remove(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    disconnect(&app, &caller, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Deletes an integration. The caller must be an administrator.
pub async fn disconnect(app: &Shared, caller: &Caller, id: &str) -> Result<(), Problem> {
    caller.administers()?;
    app.integrations.remove(caller.workspace(), id).await?;
    Ok(app.accounts.record(Note::by(&caller.0, "integration.removed").on(id)).await?)
}

/// Check whether a connected system accepts its credentials
#[utoipa::path(post, path = "/integrations/{integration}/check", tag = "integrations",
    params(("integration" = String, Path, description = "the integration's id"), IdempotencyKey),
    responses((status = 200, body = Checked), (status = 401, body = Problem), (status = 403, body = Problem),
        (status = 404, body = Problem), (status = 422, body = Problem)))]
async fn check(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Checked>, Problem> {
    caller.administers()?;
    let checked = app.integrations.check(caller.workspace(), &id).await?;
    app.accounts.record(Note::by(&caller.0, "integration.checked").on(&id).with("ok", checked.ok)).await?;
    Ok(Json(checked))
}

async fn record(
    app: &Shared,
    caller: &Caller,
    action: &str,
    integration: &Integration,
) -> Result<(), Problem> {
    let url = integration.metadata.get("api_url").cloned().unwrap_or_default();
    let note = Note::by(&caller.0, action).on(&integration.id);
    Ok(app.accounts.record(note.with("provider", &*integration.provider).with("api_url", url)).await?)
}

impl From<IntegrationError> for Problem {
    fn from(error: IntegrationError) -> Self {
        let said = error.to_string();
        match error {
            IntegrationError::Unsupported(_) => Self::new(StatusCode::BAD_REQUEST, "unsupported", said),
            IntegrationError::Duplicate(_) => Self::conflict("duplicate", said),
            IntegrationError::Setting { .. }
            | IntegrationError::Name(_)
            | IntegrationError::Address { .. }
            | IntegrationError::Elsewhere(_)
            | IntegrationError::Sealed => Self::invalid(said),
            IntegrationError::Missing(_) => Self::new(StatusCode::NOT_FOUND, "not_found", said),
            IntegrationError::Record(error) => error.into(),
        }
    }
}
