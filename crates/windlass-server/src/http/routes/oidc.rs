//! `/auth/oidc`: sign-in with an OpenID Connect provider. The routes are for browsers: they use redirects, a cookie,
//! and HTML pages for errors.

use axum::extract::State;
use axum::response::{AppendHeaders, IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use utoipa::IntoParams;

use super::auth::page;
use crate::account::error::AccountError;
use crate::account::oidc::{Answer, FLOW_S, Provider};
use crate::account::people::user::DEFAULT_WORKSPACE;
use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Peer;
use crate::http::cookie::Base;
use crate::http::input::{Path, Query};
use crate::http::problem::Problem;

/// Name of the cookie with the state of a sign-in in progress.
const FLOW: &str = "windlass_oidc";
/// Path of these routes.
const PATH: &str = "/api/v1/auth/oidc";

pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(begin)).routes(routes!(finish))
}

fn provider(app: &Shared, name: &str) -> Result<Provider, Problem> {
    let missing = || Problem::not_found(format!("provider `{name}`"));
    let file = app.config.settings.server.oidc.get(name).ok_or_else(missing)?;
    let client_secret = match &file.client_secret {
        Some(reference) => {
            let place = format!("server.oidc.{name}.client_secret");
            let secret = reference.resolve(&place).map_err(Problem::internal)?;
            Some(secret.expose().to_owned())
        }
        None => None,
    };
    let usual = || vec!["email".to_owned(), "profile".to_owned()];
    Ok(Provider {
        name: name.to_owned(),
        issuer: file.issuer.clone(),
        client_id: file.client_id.clone(),
        client_secret,
        scopes: file.scopes.clone().unwrap_or_else(usual),
        domains: file.domains.clone(),
        role: file.role,
        workspace: file.workspace.clone().unwrap_or_else(|| DEFAULT_WORKSPACE.to_owned()),
        link_by_email: file.link_by_email,
    })
}

/// Start a sign-in with a provider: redirects the browser to it
#[utoipa::path(get, path = "/auth/oidc/{provider}", tag = "auth",
    params(("provider" = String, Path, description = "the provider's name in `[server.oidc]`")),
    responses((status = 303), (status = 404, body = Problem), (status = 502, body = Problem)))]
async fn begin(
    State(app): State<Shared>,
    base: Base,
    Path(name): Path<String>,
) -> Result<impl IntoResponse, Problem> {
    let provider = provider(&app, &name)?;
    let redirect = format!("{}{PATH}/{name}/callback", base.url);
    let (url, flow) = app.accounts.begin_oidc(&provider, &redirect).await?;
    let headers = [base.set_own(FLOW, &flow, FLOW_S), (header::LOCATION, url)];
    Ok((StatusCode::SEE_OTHER, [(header::CACHE_CONTROL, "no-store")], headers))
}

/// Query parameters with which the provider redirects the browser back.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Back {
    /// Authorization code to exchange.
    code: Option<String>,
    /// State parameter of the authorization request.
    state: Option<String>,
    /// Issuer identifier.
    iss: Option<String>,
    /// Error code if there is no authorization code.
    error: Option<String>,
}

/// Finish a sign-in with a provider: signs in and redirects the browser to the UI
#[utoipa::path(get, path = "/auth/oidc/{provider}/callback", tag = "auth",
    params(("provider" = String, Path, description = "the provider's name in `[server.oidc]`"), Back),
    responses((status = 303), (status = 403), (status = 404, body = Problem), (status = 502)))]
async fn finish(
    State(app): State<Shared>,
    Peer(client): Peer,
    base: Base,
    Path(name): Path<String>,
    Query(back): Query<Back>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let provider = provider(&app, &name)?;
    // Append this cookie instead of replacing the header, because the sign-in sets its own cookies.
    let used = AppendHeaders([base.set_own(FLOW, "", 0)]);
    let Back { code, state, iss, error } = back;
    let (Some(code), Some(state)) = (code, state) else {
        let said = crate::text::first_line(error.as_deref().unwrap_or("no authorization code"), 80);
        let error = AccountError::Forbidden(format!("signing in with the provider `{name}` failed: {said}"));
        return Ok((used, page::failed(error)).into_response());
    };
    let answer = Answer { code, state, issuer: iss };
    let flow = base.read(&headers, FLOW);
    Ok(match app.accounts.finish_oidc(&provider, flow, answer, &client).await {
        Ok(tokens) => (used, page::welcome(&base, &tokens)).into_response(),
        Err(error) => (used, page::failed(error)).into_response(),
    })
}
