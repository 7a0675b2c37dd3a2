//! The HTTP server: routes, one file per resource, and the middleware for all requests. The command line registers the
//! outward dialects ([`state::dialect`]).
//!
//! Handlers parse the request, check the permissions of the [`Caller`](caller::Caller), call the engine, and map its
//! result. They make no decisions about a run.

pub mod api;
pub mod caller;
pub mod connection;
pub mod cookie;
pub mod etag;
pub mod failure;
pub mod files;
#[cfg(any(fuzzing, feature = "testing"))]
pub mod fuzz;
pub mod input;
pub mod middleware;
mod operator;
pub mod outcome;
pub mod page;
pub mod problem;
pub mod routes;
pub mod start;
pub mod state;
pub mod stream;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};

pub use self::connection::listen::{Terms, listen};
use self::middleware::{body, limit, origin, peer, request};
use self::problem::Problem;
pub use self::routes::auth::page::link;
pub use self::routes::mcp::sign_in::back;
use self::routes::{auth, metrics, openapi, ui};
pub use self::state::{App, Shared};

/// Builds the complete router: the API, the web UI, metrics and the registered dialects.
pub fn router(app: Shared) -> Router {
    let dialects =
        app.dialects.iter().fold(Router::new(), |router, dialect| router.merge(dialect.routes(&app)));
    Router::new()
        .merge(routes::api(&app))
        .merge(openapi::routes())
        .merge(auth::page::routes())
        .merge(ui::routes())
        .merge(metrics::routes())
        .merge(dialects)
        .fallback(ui::nowhere)
        .method_not_allowed_fallback(async || {
            let status = http::StatusCode::METHOD_NOT_ALLOWED;
            Problem::new(status, "method_not_allowed", "this path does not support the method")
        })
        .layer(DefaultBodyLimit::max(input::BODY_MAX_BYTES))
        .layer(from_fn_with_state(app.clone(), body::watch))
        .layer(from_fn_with_state(app.clone(), limit::count))
        .layer(from_fn_with_state(app.clone(), origin::check))
        .layer(from_fn_with_state(app.clone(), peer::find))
        .layer(from_fn(connection::listen::check_head))
        .layer(from_fn_with_state(app.clone(), request::trace))
        .with_state(app)
}
