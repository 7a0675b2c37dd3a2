//! One file per resource of the native API, and the pages beside it: a flat list, whose entries know each other only where
//! one resource is part of another.

pub mod agents;
pub mod audit;
pub mod auth;
pub mod auto_run;
pub mod commands;
pub mod files;
pub mod fork;
pub mod grants;
pub mod health;
pub mod integrations;
pub mod interrupts;
pub mod journal;
pub mod keys;
pub mod limits;
pub mod mcp;
pub mod messages;
pub mod metrics;
#[cfg(feature = "openid")]
pub mod oidc;
pub mod openapi;
pub mod pictures;
pub mod policy;
pub mod queue;
pub mod restore;
pub mod runs;
pub mod share;
pub mod team;
pub mod threads;
pub mod tools;
pub mod ui;
pub mod usage;

use axum::Router;
use axum::middleware::from_fn_with_state;

use super::api::ApiRouter;
use super::middleware::idempotency;
use super::state::Shared;
use super::stream;

/// The native API.
pub fn api(app: &Shared) -> Router<Shared> {
    let once = from_fn_with_state(app.clone(), idempotency::once);
    v1(app.config.settings.files.max_bytes(), |keyed| keyed.layer(once)).nest_under(PREFIX)
}

/// Where the native API is.
const PREFIX: &str = "/api/v1";

/// The routes of the native API. Features that come later merge their routes here; those whose `POST`s take an
/// `Idempotency-Key` into `keyed`, which `once` wraps.
fn v1(file_max_bytes: u64, once: impl FnOnce(ApiRouter) -> ApiRouter) -> ApiRouter {
    ApiRouter::new()
        .merge(health::routes())
        .merge(stream::routes())
        .merge(usage::routes())
        .merge(limits::routes())
        // Their answers have secrets in them, which are kept for nobody's second try.
        .merge(people())
        .merge(files::routes(file_max_bytes))
        .merge(once(keyed()))
}

/// Routes whose `POST`s happen once for a key.
fn keyed() -> ApiRouter {
    ApiRouter::new()
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
fn people() -> ApiRouter {
    let own = ApiRouter::new().merge(auth::routes());
    #[cfg(feature = "openid")]
    let own = own.merge(oidc::routes());
    own.merge(team::routes()).merge(keys::routes()).merge(audit::routes()).merge(mcp::sign_in::routes())
}
