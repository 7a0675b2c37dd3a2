//! `/threads/{thread}/pictures`: the images of a thread, for the web UI.
//!
//! This route serves no other blobs. The route returns 404 for a blob that is not an image, or that this thread does
//! not reference.

use axum::extract::State;
use axum::response::Response;
use http::{HeaderName, HeaderValue, StatusCode, header};
use windlass::machine::{Digest, ThreadId};

use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::etag::{ETag, IfNoneMatch, Seen};
use crate::http::input::Path;
use crate::http::problem::Problem;

/// Headers of an image: private, sandboxed, and revalidated for each use. The next user of the browser may be another
/// person, or the user may have lost access.
const HEADERS: [(HeaderName, HeaderValue); 4] = [
    (header::CONTENT_DISPOSITION, HeaderValue::from_static("inline")),
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'")),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache")),
];

pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(one))
}

/// Get an image of a conversation: PNG, JPEG, GIF or WebP, at most 20 MiB
///
/// The image is identified by the digest in a message block or a tool result.
#[utoipa::path(get, path = "/threads/{thread}/pictures/{digest}", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id"),
        ("digest" = String, Path, description = "the picture's digest, 64 hexadecimal digits"), IfNoneMatch),
    responses((status = 200, body = Vec<u8>, content_type = "image/*")))]
async fn one(
    State(app): State<Shared>,
    caller: Caller,
    seen: Seen,
    Path((thread, digest)): Path<(ThreadId, String)>,
) -> Result<Response, Problem> {
    caller.reads()?;
    caller.reads_thread(&app, &thread).await?;
    let missing = || Problem::not_found(format!("picture `{digest}`"));
    let named = Digest::from_hex(&digest).ok_or_else(missing)?;
    let tag = ETag::strong(&("picture", &named));
    // The client already has the content. Only check that the thread still references the image, which is cheaper than
    // reading it.
    if seen.knows(&tag) && app.engine.thread(&thread).files().names(&named).await? {
        return Ok(tag.on((StatusCode::NOT_MODIFIED, HEADERS)));
    }
    let (media_type, bytes) =
        app.engine.thread(&thread).files().picture(&named).await?.ok_or_else(missing)?;
    Ok(tag.on(([(header::CONTENT_TYPE, HeaderValue::from_static(media_type))], HEADERS, bytes)))
}
