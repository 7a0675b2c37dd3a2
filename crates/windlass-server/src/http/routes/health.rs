//! `/health`, `/health/ready` and `/version`: public, so that load balancers need no key. Their responses contain no
//! secrets.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::problem::Problem;

pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(live)).routes(routes!(ready)).routes(routes!(version))
}

/// Liveness of the server.
#[derive(Debug, Serialize, ToSchema)]
struct Health {
    /// `ok`.
    status: &'static str,
}

/// Check that the process responds
#[utoipa::path(get, path = "/health", tag = "server", responses((status = 200, body = Health)))]
async fn live() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Check that the process can do its work: its store responds
#[utoipa::path(get, path = "/health/ready", tag = "server",
    responses((status = 200, body = Readiness), (status = 503, body = Problem)))]
async fn ready(State(app): State<Shared>) -> Result<Json<Readiness>, Problem> {
    // Any successful read shows that the store responds.
    app.engine.records().changes(&[]).await?;
    let servers = app.servers.hub.status();
    let used = || servers.iter().filter(|server| server.health != windlass::mcp::Health::Disabled);
    let mcp = ServersReady {
        used: used().count(),
        ready: used().filter(|server| server.health.is_ready()).count(),
    };
    Ok(Json(Readiness { status: "ok", store: "ok", mcp }))
}

/// Readiness of the server and its dependencies.
#[derive(Debug, Serialize, ToSchema)]
struct Readiness {
    /// `ok`. Unavailable tool servers do not change it: runs that do not use them can continue.
    status: &'static str,
    /// `ok`: the store responds.
    store: &'static str,
    /// Tool servers.
    mcp: ServersReady,
}

/// Number of tool servers.
#[derive(Debug, Serialize, ToSchema)]
struct ServersReady {
    /// Enabled servers.
    used: usize,
    /// Enabled servers that are ready.
    ready: usize,
}

/// The build.
#[derive(Debug, Serialize, ToSchema)]
struct Version {
    /// Version of Windlass.
    version: &'static str,
}

/// Get the version of the server
#[utoipa::path(get, path = "/version", tag = "server", responses((status = 200, body = Version)))]
async fn version() -> Json<Version> {
    Json(Version { version: env!("CARGO_PKG_VERSION") })
}
