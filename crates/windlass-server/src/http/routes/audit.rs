//! `/audit`: the audit log of a workspace, for its administrators. No route changes an entry.

use axum::Json;
use axum::body::Body as Stream;
use axum::extract::State;
use axum::response::IntoResponse;
use futures::stream;
use http::header;

use crate::account::audit::Entry;
use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::input::Query;
use crate::http::page::{Page, PageQuery};
use crate::http::problem::Problem;

pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(list)).routes(routes!(export))
}

/// List audit log entries, newest first
#[utoipa::path(get, path = "/audit", tag = "audit", params(PageQuery),
    responses((status = 200, body = Page<Entry>), (status = 403, body = Problem)))]
async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<Entry>>, Problem> {
    caller.administers()?;
    let (limit, before) = (query.limit()?, query.after::<u64>()?);
    let entries = app.accounts.audit_before(caller.workspace(), before, limit + 1).await?;
    Ok(Json(Page::of(entries, limit, |entry: &Entry| entry.seq)))
}

/// Export the audit log as JSON lines, for `windlass admin audit verify`
#[utoipa::path(get, path = "/audit/export", tag = "audit",
    responses((status = 200, body = String, content_type = "application/x-ndjson"), (status = 403, body = Problem)))]
async fn export(State(app): State<Shared>, caller: Caller) -> Result<impl IntoResponse, Problem> {
    caller.administers()?;
    let export = app.accounts.audit_export(caller.workspace()).await?;
    let chunks = stream::try_unfold((app, export), async |(app, mut export)| {
        let chunk = app.accounts.audit_chunk(&mut export).await?;
        Ok::<_, windlass::port::journal::StoreError>(chunk.map(|chunk| (chunk, (app, export))))
    });
    let headers = [
        (header::CONTENT_TYPE, "application/x-ndjson"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"audit.ndjson\""),
    ];
    Ok((headers, Stream::from_stream(chunks)))
}
