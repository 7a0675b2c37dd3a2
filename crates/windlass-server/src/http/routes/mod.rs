//! The routes of the native API and the pages beside it, one file per resource. The list is flat: a file depends on
//! another file only if its resource is part of the other resource.

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

/// Builds the router of the native API.
pub fn api(app: &Shared) -> Router<Shared> {
    let once = from_fn_with_state(app.clone(), idempotency::once);
    v1(app.config.settings.files.max_bytes(), |keyed| keyed.layer(once)).nest_under(PREFIX)
}

/// Path prefix of the native API.
const PREFIX: &str = "/api/v1";

/// Builds the routes of the native API. New features merge their routes in this function, or in `keyed` if their `POST`
/// routes support `Idempotency-Key`. The parameter `once` wraps the routes of `keyed`.
fn v1(file_max_bytes: u64, once: impl FnOnce(ApiRouter) -> ApiRouter) -> ApiRouter {
    ApiRouter::new()
        .merge(health::routes())
        .merge(stream::routes())
        .merge(usage::routes())
        .merge(limits::routes())
        // The responses of these routes contain secrets, which must not be stored for a replay.
        .merge(people())
        .merge(files::routes(file_max_bytes))
        .merge(once(keyed()))
}

/// Routes whose `POST` methods support `Idempotency-Key`.
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

/// Routes for authentication, accounts and the audit log.
fn people() -> ApiRouter {
    let own = ApiRouter::new().merge(auth::routes());
    #[cfg(feature = "openid")]
    let own = own.merge(oidc::routes());
    own.merge(team::routes()).merge(keys::routes()).merge(audit::routes()).merge(mcp::sign_in::routes())
}
