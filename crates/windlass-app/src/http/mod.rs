//! The server: routes, and what every request passes. One file per resource; outward dialects are in `compat/`.
//!
//! Handlers parse, ask the [`Caller`](caller::Caller) what it may, call the engine, and map what comes back. They
//! decide nothing about a run.

mod audit;
mod auth;
pub mod caller;
mod health;
pub mod input;
mod keys;
mod listen;
mod oidc;
mod openapi;
pub mod origin;
pub mod page;
pub mod problem;
mod request;
mod team;
mod threads;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use windlass::{AgentConfig, Engine};

pub use self::listen::listen;
use self::origin::Origins;
use self::problem::Problem;
use crate::account::Accounts;
use crate::config::Settings;

/// What handlers share.
pub struct App {
    /// The engine.
    pub engine: Engine,
    /// The accounts of its store.
    pub accounts: Accounts,
    /// The agent that new runs get.
    pub agent: AgentConfig,
    /// The settings that the server was started with.
    pub settings: Settings,
    /// The addresses that it answers at.
    pub origins: Origins,
}

/// [`App`] as handlers get it.
pub type Shared = Arc<App>;

/// A one-time link.
pub fn link(address: &str, token: &str) -> String {
    format!("{}{}?token={token}", address.trim_end_matches('/'), auth::page::PATH)
}

/// The whole server.
pub fn router(app: Shared) -> Router {
    let (api, document) = api().split_for_parts();
    Router::new()
        .merge(api)
        .merge(openapi::routes(document))
        .merge(auth::page::routes())
        .fallback(async || Problem::not_found("this path"))
        .method_not_allowed_fallback(async || {
            let status = http::StatusCode::METHOD_NOT_ALLOWED;
            Problem::new(status, "method_not_allowed", "this path has no such method")
        })
        .layer(DefaultBodyLimit::max(input::BODY_MAX_BYTES))
        .layer(middleware::from_fn_with_state(app.clone(), origin::check))
        .layer(middleware::from_fn(request::trace))
        .with_state(app)
}

/// The native API with its document. Features that come later merge their routes here.
fn api() -> OpenApiRouter<Shared> {
    let v1 = OpenApiRouter::new().merge(health::routes()).merge(threads::routes()).merge(people());
    OpenApiRouter::with_openapi(openapi::Document::openapi()).nest("/api/v1", v1)
}

/// Who may come, and what they may do.
fn people() -> OpenApiRouter<Shared> {
    let own = OpenApiRouter::new().merge(auth::routes()).merge(oidc::routes());
    own.merge(team::routes()).merge(keys::routes()).merge(audit::routes())
}
