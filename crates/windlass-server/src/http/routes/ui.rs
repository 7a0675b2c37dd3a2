//! The web UI: its page and the page's assets, embedded in the binary.
//!
//! A debug build reads the files from the checkout, so that a browser reload shows changes.

mod modules;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::OnceLock;

use axum::Router;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use rust_embed::RustEmbed;
use windlass::machine::Digest;

use crate::http::Shared;
use crate::http::problem::Problem;

/// The files of the UI.
#[derive(RustEmbed)]
#[folder = "ui"]
struct Files;

/// Paths of the UI. The script of the page selects the view by the path.
const PLACES: &[&str] = &[
    "/",
    "/login",
    "/chat/{thread}",
    "/inbox",
    "/runs",
    "/runs/{run}",
    "/compare",
    "/library",
    "/library/{*section}",
    "/usage",
    "/settings",
    "/settings/{*section}",
];

/// First path segments of APIs and assets. Unknown paths below these segments return a problem instead of the page.
const PROGRAMS: &[&str] = &["api", "auth", "ui", "metrics", "agui", "skillchat", "skyflo", "zeus"];

/// Content security policy: allows scripts, styles and data only from this server, and no script from text. Images may
/// be data URLs, for tool results.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data: blob:; font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dompurify";

/// An asset's URL contains the digest of all files, so the content at a URL never changes.
const FOREVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const ASK_AGAIN: HeaderValue = HeaderValue::from_static("no-cache");

pub fn routes() -> Router<Shared> {
    let asset = get(async |Path((digest, path)): Path<(String, String)>, headers: HeaderMap| {
        file(&digest, &path, &headers)
    });
    PLACES
        .iter()
        .fold(Router::new(), |router, place| router.route(place, get(page)))
        .route("/ui/{digest}/{*path}", asset)
}

/// Responds to unknown paths: browsers receive the page with status 404, other clients a problem.
pub async fn nowhere(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let first = uri.path().split('/').nth(1).unwrap_or_default();
    let is_looking = [Method::GET, Method::HEAD].contains(&method) && takes_page(&headers);
    if !is_looking || PROGRAMS.contains(&first) {
        return missing();
    }
    let mut response = page(headers).await;
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

fn takes_page(headers: &HeaderMap) -> bool {
    let words = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    words
        .flat_map(|line| line.split(','))
        .any(|word| word.split(';').next().is_some_and(|name| name.trim().eq_ignore_ascii_case("text/html")))
}

/// Serves the page, with the asset URLs of this build.
async fn page(headers: HeaderMap) -> Response {
    let Some(index) = Files::get("index.html") else { return missing() };
    let text = String::from_utf8_lossy(&index.data).replace(MODULES, preloads());
    let text = text.replace("/ui/-/", &format!("/ui/{}/", digest()));
    let mut response = whole("text/html; charset=utf-8", text.into_bytes().into(), &headers);
    let own = response.headers_mut();
    own.insert(header::CACHE_CONTROL, ASK_AGAIN);
    own.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    // Prevent the browser from resolving host names of links that a model wrote.
    own.insert("x-dns-prefetch-control", HeaderValue::from_static("off"));
    own.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    own.insert("permissions-policy", HeaderValue::from_static("camera=(), microphone=(), geolocation=()"));
    response
}

/// Placeholder in the page for the preload links.
const MODULES: &str = "<!-- modules -->";

/// Returns preload links for all statically imported modules, so that the browser loads them in parallel.
fn preloads() -> &'static str {
    static LINKS: OnceLock<String> = OnceLock::new();
    LINKS.get_or_init(|| {
        let read = |path: &str| Some(String::from_utf8_lossy(&Files::get(path)?.data).into_owned());
        let link = |path: &String| format!("<link rel=\"modulepreload\" href=\"/ui/-/{path}\">");
        modules::imported_by("app/main.js", read).iter().map(link).collect::<Vec<_>>().join("\n")
    })
}

/// Serves an asset. A URL of another build returns the current content, for example for a page that was open during an
/// upgrade.
fn file(asked: &str, path: &str, headers: &HeaderMap) -> Response {
    let Some(media_type) = media_type(path) else { return missing() };
    let Some(file) = Files::get(path) else { return missing() };
    let mut response = if cfg!(debug_assertions) {
        whole(media_type, file.data.into_owned().into(), headers)
    } else {
        packed(path, media_type, file.data.into_owned(), headers)
    };
    let is_of_this = asked == digest() && !cfg!(debug_assertions);
    let caching = if is_of_this { FOREVER } else { ASK_AGAIN };
    response.headers_mut().insert(header::CACHE_CONTROL, caching);
    response
}

fn missing() -> Response {
    Problem::not_found("this path").into_response()
}

/// Returns the media type of an asset by its extension.
fn media_type(path: &str) -> Option<&'static str> {
    match path.rsplit_once('.')?.1 {
        "js" => Some("text/javascript; charset=utf-8"),
        "css" => Some("text/css; charset=utf-8"),
        "svg" => Some("image/svg+xml"),
        "txt" => Some("text/plain; charset=utf-8"),
        _ => None, // tidy: no other kind of file is served
    }
}

/// Returns the digest that identifies this build's files.
fn digest() -> &'static str {
    static DIGEST: OnceLock<String> = OnceLock::new();
    DIGEST.get_or_init(|| {
        let mut all = Vec::new();
        let mut names: Vec<_> = Files::iter().collect();
        names.sort_unstable();
        for name in names {
            let data = Files::get(&name).map(|file| file.data).unwrap_or_default();
            all.extend_from_slice(name.as_bytes());
            all.extend_from_slice(Digest::of(&data).to_string().as_bytes());
        }
        Digest::of(&all).to_string()[..16].to_owned()
    })
}

/// Serves an asset compressed. The first request compresses the asset; later requests use the cached result.
fn packed(path: &str, media_type: &'static str, data: Vec<u8>, headers: &HeaderMap) -> Response {
    static PACKED: OnceLock<std::sync::Mutex<BTreeMap<String, Bytes>>> = OnceLock::new();
    if !takes_gzip(headers) {
        return ([(header::CONTENT_TYPE, media_type)], data).into_response();
    }
    // The map has at most one entry for each embedded file.
    let mut packed = PACKED.get_or_init(Default::default).lock().unwrap_or_else(|broken| broken.into_inner());
    let body = packed.entry(path.to_owned()).or_insert_with(|| gzip(&data)).clone();
    zipped(media_type, body)
}

fn whole(media_type: &'static str, data: Bytes, headers: &HeaderMap) -> Response {
    match takes_gzip(headers) {
        true => zipped(media_type, gzip(&data)),
        false => (StatusCode::OK, [(header::CONTENT_TYPE, media_type)], data).into_response(),
    }
}

fn zipped(media_type: &'static str, body: Bytes) -> Response {
    let headers = [
        (header::CONTENT_TYPE, media_type),
        (header::CONTENT_ENCODING, "gzip"),
        (header::VARY, "accept-encoding"),
    ];
    (headers, body).into_response()
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let words = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    words.flat_map(|line| line.split(',')).any(|word| {
        let (name, weight) = word.split_once(';').unwrap_or((word, ""));
        name.trim().eq_ignore_ascii_case("gzip") && !matches!(weight.trim(), "q=0" | "q=0.0")
    })
}

fn gzip(data: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // Writing to memory cannot fail.
    let _ = encoder.write_all(data);
    encoder.finish().unwrap_or_default().into()
}
