//! Connected systems in the Command Center's shape. (SK-R9)
//!
//! The integrations are the server's. Rules, audit and vault are those of the native routes.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass_server::http::Shared;
use windlass_server::http::caller::Caller;
use windlass_server::http::input::{Body, Path, Query};
use windlass_server::http::problem::Problem;
use windlass_server::http::routes::integrations as native;
use windlass_server::integration::{Integration, IntegrationChange, IntegrationDraft, IntegrationStatus};

use crate::date::iso;

/// Encodes an integration without its credentials, with the same members in every response.
fn told(integration: &Integration) -> Value {
    let Integration { id, provider, name, metadata, credentials_ref: _, status, created_at, updated_at } =
        integration;
    json!({
        "id": id,
        "provider": provider,
        "name": name,
        "metadata": metadata,
        "status": status,
        "created_at": iso(*created_at),
        "updated_at": iso(*updated_at),
    })
}

#[derive(Debug, Deserialize)]
pub struct Which {
    #[serde(default)]
    provider: Option<String>,
}

/// Lists the workspace's integrations for any member.
pub async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Query(which): Query<Which>,
) -> Result<Json<Vec<Value>>, Problem> {
    caller.reads()?;
    let provider = which.provider.as_deref().map(folded).filter(|provider| !provider.is_empty());
    let found = app.integrations.list(caller.workspace(), provider.as_deref()).await?;
    Ok(Json(found.iter().map(told).collect()))
}

#[derive(Deserialize)]
pub struct New {
    provider: String,
    /// The integration's name. The Command Center sends none.
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    credentials: Map<String, Value>,
    #[serde(default)]
    status: IntegrationStatus,
}

pub async fn add(
    State(app): State<Shared>,
    caller: Caller,
    Body(new): Body<New>,
) -> Result<Json<Value>, Problem> {
    let New { provider, name, metadata, credentials, status } = new;
    let provider = folded(&provider);
    let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| provider.clone());
    let metadata = metadata.unwrap_or_default();
    let draft = IntegrationDraft { provider, name, metadata, credentials: Some(credentials), status };
    let made = native::connect(&app, &caller, draft).await.map_err(refused)?;
    Ok(Json(told(&made)))
}

/// A change of an integration. Absent and null members keep their value.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Change {
    name: Option<String>,
    metadata: Option<Map<String, Value>>,
    credentials: Option<Map<String, Value>>,
    status: Option<IntegrationStatus>,
}

pub async fn change(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
    Body(change): Body<Change>,
) -> Result<Json<Value>, Problem> {
    let Change { name, metadata, credentials, status } = change;
    let change = IntegrationChange { name, metadata, credentials, status };
    let changed = native::reconnect(&app, &caller, &id, change).await.map_err(refused)?;
    Ok(Json(told(&changed)))
}

/// Removes an integration with its credentials.
pub async fn remove(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    native::disconnect(&app, &caller, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns the provider in lower case, for comparison.
fn folded(provider: &str) -> String {
    provider.trim().to_lowercase()
}

/// Converts a problem: in this dialect, a duplicate integration and invalid settings are bad requests.
fn refused(problem: Problem) -> Problem {
    match problem.status {
        StatusCode::CONFLICT | StatusCode::UNPROCESSABLE_ENTITY => {
            Problem { status: StatusCode::BAD_REQUEST, ..problem }
        }
        _ => problem, // tidy: other problems have the same status in the original
    }
}
