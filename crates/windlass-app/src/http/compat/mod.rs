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

#[cfg(any(test, fuzzing))]
pub use agui::RunInput;
use axum::Router;
use http::HeaderMap;

use super::Shared;
use crate::config::Dialect;

/// Whether a dialect's own cookie is that of somebody who is known.
pub async fn knows_cookie(headers: &HeaderMap, app: &Shared) -> bool {
    let dialects = &app.settings.server.dialect;
    (dialects.serves(Dialect::Skyflo) && skyflo::knows_cookie(headers, app).await)
        || (dialects.serves(Dialect::Skillchat) && skillchat::knows_cookie(headers, app).await)
}

/// The routes of every dialect that is served.
pub fn routes(app: &Shared) -> Router<Shared> {
    let all = [
        (Dialect::Skyflo, skyflo::routes(app)),
        (Dialect::Zeus, zeus::routes()),
        (Dialect::Skillchat, skillchat::routes(app)),
        (Dialect::Agui, agui::routes()),
    ];
    let served = all.into_iter().filter(|(dialect, _)| app.settings.server.dialect.serves(*dialect));
    served.fold(Router::new(), |router, (_, routes)| router.merge(routes))
}
