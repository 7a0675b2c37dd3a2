//! Outward dialects: other products' interfaces over the same engine, each under a prefix of its own.
//!
//! A dialect maps names and shapes. It decides nothing about a run, and keeps nothing that the journal has.

mod agui;
mod decision;
mod history;
mod revision;
mod session;
mod skillchat;
mod skyflo;
#[cfg(test)]
mod stage;
mod stream;
mod turn;
mod zeus;

use axum::Router;
use http::HeaderMap;

use super::Shared;

/// Whether a dialect's own cookie is that of somebody who is known.
pub async fn knows_cookie(headers: &HeaderMap, app: &Shared) -> bool {
    skyflo::knows_cookie(headers, app).await
}

/// The routes of every dialect.
pub fn routes(app: &Shared) -> Router<Shared> {
    Router::new()
        .merge(skyflo::routes(app))
        .merge(zeus::routes())
        .merge(skillchat::routes())
        .merge(agui::routes())
}
