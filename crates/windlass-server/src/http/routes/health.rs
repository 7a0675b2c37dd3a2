//! `/health`, `/health/ready` and `/version`: open to all, so that balancers need no key; they name nothing secret.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::problem::Problem;

/// The routes.
pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(live)).routes(routes!(ready)).routes(routes!(version))
}

/// That the server lives.
#[derive(Debug, Serialize, ToSchema)]
struct Health {
    /// `ok`.
    status: &'static str,
}

/// The process answers
#[utoipa::path(get, path = "/health", tag = "server", responses((status = 200, body = Health)))]
async fn live() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// The process can do its work: its store answers
#[utoipa::path(get, path = "/health/ready", tag = "server",
    responses((status = 200, body = Readiness), (status = 503, body = Problem)))]
async fn ready(State(app): State<Shared>) -> Result<Json<Readiness>, Problem> {
    // Any read shows that the store answers.
    app.engine.records().changes(&[]).await?;
    let servers = app.servers.hub.status();
    let used = || servers.iter().filter(|server| server.health != windlass::mcp::Health::Disabled);
    let mcp = ServersReady {
        used: used().count(),
        ready: used().filter(|server| server.health.is_ready()).count(),
    };
    Ok(Json(Readiness { status: "ok", store: "ok", mcp }))
}

/// That the server can do its work, and on what that depends.
#[derive(Debug, Serialize, ToSchema)]
struct Readiness {
    /// `ok`: whatever else is away, what does not need it goes on.
    status: &'static str,
    /// `ok`: the store answers.
    store: &'static str,
    /// The tool servers.
    mcp: ServersReady,
}

/// How many tool servers there are.
#[derive(Debug, Serialize, ToSchema)]
struct ServersReady {
    /// Those that are to be used.
    used: usize,
    /// Those of them that answer.
    ready: usize,
}

/// The build.
#[derive(Debug, Serialize, ToSchema)]
struct Version {
    /// The product's version.
    version: &'static str,
}

/// Which build this is
#[utoipa::path(get, path = "/version", tag = "server", responses((status = 200, body = Version)))]
async fn version() -> Json<Version> {
    Json(Version { version: env!("CARGO_PKG_VERSION") })
}
