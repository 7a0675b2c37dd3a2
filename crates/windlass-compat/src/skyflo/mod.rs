//! The interface of the Skyflo engine, under `/skyflo`, so that its Command Center works unchanged.
//!
//! Paths and shapes follow the engine's `/api/v1`; an error's text is in `detail`. The routes of the
//! engine's memory are not implemented.

mod analytics;
mod auth;
pub mod calls;
mod chat;
pub mod conversations;
mod feed;
mod find;
#[cfg(test)]
mod golden;
mod health;
mod integrations;
mod messages;
pub mod reply;
mod speak;
mod team;
mod tools;
mod word;

use std::sync::Arc;

use async_trait::async_trait;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, get, patch, post};
use axum::{Extension, Router};

use http::HeaderMap;
use windlass_server::http::Shared;
use windlass_server::http::state::dialect::Dialect;

use crate::folds::Folds;

pub struct SkyfloDialect;

#[async_trait]
impl Dialect for SkyfloDialect {
    fn routes(&self, app: &Shared) -> Router<Shared> {
        routes(app)
    }

    async fn knows_cookie(&self, headers: &HeaderMap, app: &Shared) -> bool {
        auth::is_known(headers, app).await
    }
}

fn routes(app: &Shared) -> Router<Shared> {
    let all: Vec<(&str, MethodRouter<Shared>)> = vec![
        ("/health", get(health::live)),
        ("/health/database", get(health::database)),
        ("/health/mcp", get(health::mcp)),
        ("/agent/chat", post(chat::chat)),
        ("/agent/approvals/{call}", post(chat::decide)),
        ("/agent/stop", post(chat::stop)),
        ("/agent/tools", get(tools::list)),
        ("/conversations", post(conversations::add).get(conversations::list)),
        (
            "/conversations/{conversation}",
            get(conversations::one).patch(conversations::change).delete(conversations::delete),
        ),
        ("/integrations", get(integrations::list).post(integrations::add)),
        ("/integrations/{integration}", patch(integrations::change).delete(integrations::remove)),
        ("/analytics/metrics", get(analytics::metrics)),
        ("/auth/jwt/login", post(auth::login)),
        ("/auth/jwt/logout", post(auth::logout_session)),
        ("/auth/logout", post(auth::logout)),
        ("/auth/refresh", post(auth::refresh)),
        ("/auth/refresh/issue", post(auth::issue)),
        ("/auth/register", post(auth::register)),
        ("/auth/register/register", post(auth::register)),
        ("/auth/verify/request-verify-token", post(auth::ask_for_mail)),
        ("/auth/verify/verify", post(auth::verify)),
        ("/auth/reset-password/forgot-password", post(auth::ask_for_mail)),
        ("/auth/reset-password/reset-password", post(auth::reset)),
        ("/auth/is_admin_user", get(auth::is_admin_user)),
        ("/auth/me", get(auth::me).patch(auth::change_me)),
        ("/auth/users/me", get(auth::me).patch(auth::change_me)),
        ("/auth/users/me/password", patch(auth::change_password)),
        ("/auth/users/{user}", get(auth::user).patch(auth::change_user).delete(team::remove)),
        ("/team/members", get(team::members).post(team::add)),
        ("/team/members/{member}", patch(team::change).delete(team::remove)),
    ];
    // The original also accepts each path with a trailing slash.
    let inner = all.into_iter().fold(Router::new(), |router, (path, methods)| {
        router.route(&format!("{path}/"), methods.clone()).route(path, methods)
    });
    let inner = inner.layer(Extension(Arc::<Folds<messages::Fold>>::default()));
    Router::new().nest("/skyflo/api/v1", inner.layer(from_fn_with_state(app.clone(), auth::by_cookie)))
}
