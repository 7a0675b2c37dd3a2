//! The server: routes, and what every request passes. One file per resource; outward dialects are in `compat/`.
//!
//! Handlers parse, ask the [`Caller`](caller::Caller) what it may, call the engine, and map what comes back. They
//! decide nothing about a run.

mod agents;
mod audit;
mod auth;
mod auto_run;
mod begin;
mod body;
pub mod caller;
mod commands;
mod compat;
pub mod etag;
pub mod failure;
pub mod files;
mod fork;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod grants;
mod health;
pub mod idempotency;
pub mod input;
mod integrations;
mod interrupts;
mod journal;
mod keys;
pub mod limit;
mod limits;
mod listen;
mod mcp;
mod messages;
pub mod metrics;
#[cfg(feature = "openid")]
mod oidc;
mod openapi;
mod operator;
pub mod origin;
pub mod outcome;
pub mod page;
pub mod peer;
mod pictures;
mod policy;
pub mod problem;
mod queue;
mod request;
mod restore;
mod runs;
mod send;
mod share;
pub mod stream;
mod team;
mod threads;
mod timezone;
pub mod titles;
pub mod tls;
mod tools;
mod ui;
mod usage;
mod wire;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use tokio_util::sync::CancellationToken;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use windlass::adapter::model::Secret;
use windlass::{AgentConfig, Engine};

use self::limit::Limiter;
pub use self::listen::{Terms, listen};
pub use self::mcp::sign_in::back;
use self::metrics::Metrics;
use self::origin::Origins;
use self::problem::Problem;
use crate::account::Accounts;
use crate::config::Settings;
use crate::home::Homes;
use crate::integration::Integrations;
use crate::place::Catalog;
use crate::policy::InForce;
use crate::servers::Servers;

/// What handlers share.
pub struct App {
    /// The engine.
    pub engine: Engine,
    /// Its models.
    pub models: Arc<Catalog>,
    /// The accounts of its store.
    pub accounts: Accounts,
    /// The agent that new runs get.
    pub agent: AgentConfig,
    /// The settings that the server was started with.
    pub settings: Settings,
    /// The addresses that it answers at.
    pub origins: Origins,
    /// The folders of its people.
    pub homes: Homes,
    /// The systems that workspaces are connected with.
    pub integrations: Arc<Integrations>,
    /// The tool servers.
    pub servers: Arc<Servers>,
    /// The policy files that count, as they were when the server started.
    pub policies: Vec<InForce>,
    /// What keeps uploads within bounds.
    pub uploading: files::Uploading,
    /// Cancelled when the server is to end: streams close with a hint to come back, and nothing new is begun.
    pub stopping: CancellationToken,
    /// What bounds the making of titles.
    pub titles: titles::Titles,
    /// What is counted against limits.
    pub limiter: Limiter,
    /// What is counted for whoever watches the server.
    pub metrics: Arc<Metrics>,
    /// What reads the metrics from elsewhere.
    pub scrape: Option<Secret>,
    /// What the readers of a thread share.
    pub frames: stream::frame::Frames,
}

/// [`App`] as handlers get it.
pub type Shared = Arc<App>;

/// A one-time link.
pub fn link(address: &str, token: &str) -> String {
    format!("{}{}?token={token}", address.trim_end_matches('/'), auth::page::PATH)
}

/// The whole server.
pub fn router(app: Shared) -> Router {
    let (api, document) = api(&app).split_for_parts();
    Router::new()
        .merge(api)
        .merge(openapi::routes(document))
        .merge(auth::page::routes())
        .merge(ui::routes())
        .merge(metrics::routes())
        .merge(compat::routes(&app))
        .fallback(ui::nowhere)
        .method_not_allowed_fallback(async || {
            let status = http::StatusCode::METHOD_NOT_ALLOWED;
            Problem::new(status, "method_not_allowed", "this path has no such method")
        })
        .layer(DefaultBodyLimit::max(input::BODY_MAX_BYTES))
        .layer(middleware::from_fn_with_state(app.clone(), body::watch))
        .layer(middleware::from_fn_with_state(app.clone(), limit::count))
        .layer(middleware::from_fn_with_state(app.clone(), origin::check))
        .layer(middleware::from_fn_with_state(app.clone(), peer::find))
        .layer(middleware::from_fn(listen::check_head))
        .layer(middleware::from_fn_with_state(app.clone(), request::trace))
        .with_state(app)
}

/// The native API with its document. Features that come later merge their routes here; those whose `POST`s take an
/// `Idempotency-Key` into [`keyed`].
fn api(app: &Shared) -> OpenApiRouter<Shared> {
    let once = middleware::from_fn_with_state(app.clone(), idempotency::once);
    let v1 = OpenApiRouter::new()
        .merge(health::routes())
        .merge(stream::routes())
        .merge(usage::routes())
        .merge(limits::routes())
        // Their answers have secrets in them, which are kept for nobody's second try.
        .merge(people())
        .merge(files::routes(app.settings.files.max_bytes()))
        .merge(keyed().layer(once));
    OpenApiRouter::with_openapi(openapi::Document::openapi()).nest("/api/v1", v1)
}

/// Routes whose `POST`s happen once for a key.
fn keyed() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .merge(threads::routes())
        .merge(journal::routes())
        .merge(fork::routes())
        .merge(restore::routes())
        .merge(commands::routes())
        .merge(share::routes())
        .merge(messages::routes())
        .merge(pictures::routes())
        .merge(queue::routes())
        .merge(runs::routes())
        .merge(interrupts::routes())
        .merge(grants::routes())
        .merge(policy::routes())
        .merge(auto_run::routes())
        .merge(agents::routes())
        .merge(tools::routes())
        .merge(integrations::routes())
        .merge(mcp::routes())
}

/// Who may come, and what they may do.
fn people() -> OpenApiRouter<Shared> {
    let own = OpenApiRouter::new().merge(auth::routes());
    #[cfg(feature = "openid")]
    let own = own.merge(oidc::routes());
    own.merge(team::routes()).merge(keys::routes()).merge(audit::routes()).merge(mcp::sign_in::routes())
}
