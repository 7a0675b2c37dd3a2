//! The API's description, made from the code, and a page that shows it without any other server.

use std::sync::Arc;

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::get;
use http::header;
use utoipa::OpenApi;

use super::Shared;

/// What the document says of itself; routes and shapes come from the handlers.
#[derive(OpenApi)]
#[openapi(info(title = "Windlass", description = "A durable engine for LLM agents"))]
pub struct Document;

/// Serves the document.
pub fn routes(document: utoipa::openapi::OpenApi) -> Router<Shared> {
    // Made of strings, which are always JSON.
    let json: Arc<str> = document.to_json().unwrap_or_default().into();
    Router::new().route(
        "/api/v1/openapi.json",
        get(async move || ([(header::CONTENT_TYPE, "application/json")], json.to_string()).into_response()),
    )
}
