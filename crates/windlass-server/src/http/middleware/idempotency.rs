//! `Idempotency-Key`: executes a repeated request once and replays the first response.
//!
//! The server claims the key before the request has any effect. The key is valid for a day, for one principal and one
//! path. Ids that the engine deduplicates are derived from the claim, so a retry after a crash finds the first
//! execution. The server does not store a response with `no-store`, because the response may contain a secret.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, PoisonError};

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, StatusCode, header, request};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;
use windlass::machine::{Digest, InputId, ThreadId, Timestamp};
use windlass::port::records::{Expect, Record, RecordError};

use crate::account::secret;
use crate::http::Shared;
use crate::http::caller::Caller;
use crate::http::input::BODY_MAX_BYTES;
use crate::http::problem::{MEDIA_TYPE, Problem};

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Marks a response as a replay of the first response.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// Kind of the records in the store.
const KIND: &str = "idempotency";
/// Time for which a key is valid, in milliseconds: a day.
const LASTS_MS: u64 = 24 * 3_600_000;
/// Time in milliseconds for which another process's claim without a stored response blocks the key. The time exceeds
/// the duration of any change. Afterwards, a retry takes over the claim, and the derived ids prevent a second
/// execution.
const CLAIM_MS: u64 = 30_000;
const KEY_MAX_BYTES: usize = 255;
/// Maximum size of a stored response: the size limit of a record minus a reserve for JSON escapes.
const ANSWER_MAX_BYTES: usize = 100 * 1024;
/// Maximum number of expired keys that each new key deletes.
const SWEPT_AT_ONCE: usize = 8;

/// A random id of this process for its claims, and the keys that the process is executing.
static HERE: LazyLock<(String, Mutex<HashSet<String>>)> =
    LazyLock::new(|| (secret::draw::<9>(), Mutex::default()));

/// Describes the header in the OpenAPI document.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "it describes a header; `once` reads it")]
pub struct IdempotencyKey {
    /// A new value for each operation: 1 to 255 visible ASCII characters. A request that repeats the key within a day
    /// is executed once and receives the first response.
    #[param(rename = "Idempotency-Key", min_length = 1, max_length = 255, pattern = "^[!-~]+$")]
    idempotency_key: Option<String>,
}

/// The claim of a request, for handlers. Objects that a handler creates under these ids are created once.
#[derive(Clone, Debug)]
pub struct Claimed(Option<String>);

impl Claimed {
    /// Returns the id of the engine input that the request sends.
    pub fn input(&self) -> Option<InputId> {
        self.0.as_ref().map(|digest| InputId::from(format!("key_{digest}")))
    }

    /// Returns the id of the thread that the request creates.
    pub fn thread(&self) -> Option<ThreadId> {
        self.0.as_ref().map(|digest| ThreadId::from(format!("thr_{digest}")))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Claimed {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut request::Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or(Self(None)))
    }
}

/// The stored form of a claim, with the first response once it exists.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    /// Digest of the request body.
    body: Digest,
    since: Timestamp,
    /// The process that last claimed the key, and the time of that claim.
    process: String,
    taken: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<Answer>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    /// The body; `None` if it was too large to store or must not be stored.
    body: Option<String>,
}

/// The result of claiming a key.
enum Found {
    /// This process holds the claim and must execute the request.
    Ours(Work),
    Answered(Response),
}

/// A claim that this process holds until the value is dropped.
struct Work {
    key: String,
    owner: String,
    kept: Kept,
    version: u64,
}

impl Drop for Work {
    fn drop(&mut self) {
        here().remove(&self.key);
    }
}

fn here() -> std::sync::MutexGuard<'static, HashSet<String>> {
    // Invariant: no code panics while it holds the lock.
    HERE.1.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Executes a `POST` request with an idempotency key at most once.
pub async fn once(State(app): State<Shared>, request: Request, next: Next) -> Response {
    if request.method() != Method::POST || !request.headers().contains_key(KEY) {
        return next.run(request).await;
    }
    match keyed(app, request, next).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

async fn keyed(app: Shared, request: Request, next: Next) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    let key = read(&parts)?;
    let caller = Caller::from_request_parts(&mut parts, &app).await?;
    let body = to_bytes(body, BODY_MAX_BYTES).await.map_err(|_| {
        let detail = format!("the body is larger than {BODY_MAX_BYTES} bytes, or is incomplete");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
    })?;
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let place = Digest::default().chain(&(caller.user(), path, &key)).to_string();
    let work = match claim(&app, place, &key, Digest::of(&body), &caller).await? {
        Found::Answered(response) => return Ok(response),
        Found::Ours(work) => work,
    };
    parts.extensions.insert(caller);
    let id = Digest::default().chain(&(&work.key, work.kept.since)).to_string()[..32].to_owned();
    parts.extensions.insert(Claimed(Some(id)));
    let request = Request::from_parts(parts, Body::from(body));
    // Execute the request in a separate task, so that a client disconnect does not abort it half-way.
    let span = tracing::Span::current();
    let task = tokio::spawn(tracing::Instrument::instrument(
        async move {
            let response = next.run(request).await;
            keep(&app, work, response).await
        },
        span,
    ));
    task.await.unwrap_or_else(|error| Err(Problem::internal(error)))
}

fn read(parts: &request::Parts) -> Result<String, Problem> {
    let mut all = parts.headers.get_all(KEY).iter();
    let one = all.next().filter(|_| all.next().is_none()).map(HeaderValue::as_bytes).unwrap_or_default();
    let fits = (1..=KEY_MAX_BYTES).contains(&one.len()) && one.iter().all(u8::is_ascii_graphic);
    match std::str::from_utf8(one) {
        Ok(key) if fits => Ok(key.to_owned()),
        Ok(_) | Err(_) => Err(Problem::bad_request(format!(
            "`Idempotency-Key` must be one value of 1 to {KEY_MAX_BYTES} visible ASCII characters"
        ))
        .hint("use a new UUID for each operation, and send it again only to retry the same request")),
    }
}

/// Claims a key, or returns the stored response of an earlier request with it.
async fn claim(
    app: &Shared,
    place: String,
    key: &str,
    body: Digest,
    caller: &Caller,
) -> Result<Found, Problem> {
    let now = crate::clock::clock().now();
    let records = app.engine.records();
    let found = records.get(KIND, &place).await?;
    let fresh = Kept { body, since: now, process: HERE.0.clone(), taken: now, answer: None };
    let (kept, expected) = match found {
        None => (fresh, Expect::Absent),
        Some(record) => {
            let version = Expect::Version(record.version);
            let kept = parse(record)?;
            if now.since(kept.since) >= LASTS_MS {
                (fresh, version)
            } else if kept.body != body {
                return Err(other_body(key));
            } else if let Some(answer) = kept.answer {
                return Ok(Found::Answered(answer.replay(key)?));
            } else {
                let held = if kept.process == HERE.0 {
                    here().contains(&place)
                } else {
                    now.since(kept.taken) < CLAIM_MS
                };
                if held {
                    return Err(running(key));
                }
                (Kept { process: HERE.0.clone(), taken: now, ..kept }, version)
            }
        }
    };
    if !here().insert(place.clone()) {
        return Err(running(key));
    }
    let mut work = Work { key: place, owner: caller.user().to_string(), kept, version: 0 };
    match records.put(KIND, &work.key, &work.owner, value(&work.kept)?, expected).await {
        Ok(version) => work.version = version,
        Err(RecordError::Conflict { .. }) => return Err(running(key)),
        Err(RecordError::Store(error)) => return Err(error.into()),
    }
    sweep(app, &work.key, now).await;
    Ok(Found::Ours(work))
}

/// Stores the first response. If the request changed nothing and may succeed later, deletes the claim instead.
async fn keep(app: &Shared, mut work: Work, response: Response) -> Result<Response, Problem> {
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, usize::MAX).await.map_err(Problem::internal)?;
    let records = app.engine.records();
    let expected = Expect::Version(work.version);
    let written = match Answer::of(&parts, &bytes) {
        Some(answer) => {
            work.kept.answer = Some(answer);
            records.put(KIND, &work.key, &work.owner, value(&work.kept)?, expected).await.map(drop)
        }
        None => records.delete(KIND, &work.key, expected).await,
    };
    if let Err(error) = written {
        // The server has executed the request all the same; a retry finds the claim.
        tracing::warn!(%error, "the response to a request with an idempotency key could not be stored");
    }
    Ok(Response::from_parts(parts, Body::from(bytes)))
}

/// Deletes some expired keys: those that follow the new key in the store's order. Keys are digests, so over time the
/// sweep reaches every key.
async fn sweep(app: &Shared, after: &str, now: Timestamp) {
    let records = app.engine.records();
    for record in records.list(KIND, None, Some(after), SWEPT_AT_ONCE).await.unwrap_or_default() {
        if now.since(record.updated_at) >= LASTS_MS + CLAIM_MS {
            // Another process may have deleted the key already.
            let _ = records.delete(KIND, &record.key, Expect::Version(record.version)).await;
        }
    }
}

fn parse(record: Record) -> Result<Kept, Problem> {
    serde_json::from_value(record.value).map_err(Problem::internal)
}

fn value(kept: &Kept) -> Result<serde_json::Value, Problem> {
    serde_json::to_value(kept).map_err(Problem::internal)
}

fn other_body(key: &str) -> Problem {
    let detail = format!("the idempotency key `{key}` was already used with another body");
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "key_reused", detail)
        .hint("use a new key for each operation")
}

fn running(key: &str) -> Problem {
    let detail = format!("a request with the idempotency key `{key}` is still in progress");
    Problem::conflict("key_running", detail).retry_after(1)
}

impl Answer {
    /// Builds the record of a response. Returns `None` if a retry may receive another response.
    fn of(parts: &http::response::Parts, body: &Bytes) -> Option<Self> {
        let status = parts.status;
        let is_problem = parts
            .headers
            .get(header::CONTENT_TYPE)
            .is_some_and(|value| value.as_bytes() == MEDIA_TYPE.as_bytes());
        let again = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS];
        // A problem with status 202 means that the input is stored. A retry may return its result.
        if status.is_server_error() || again.contains(&status) || (is_problem && status.is_success()) {
            return None;
        }
        let secret = !is_problem
            && parts.headers.get(header::CACHE_CONTROL).is_some_and(|value| value.as_bytes() == b"no-store");
        let text = std::str::from_utf8(body).ok().filter(|text| text.len() <= ANSWER_MAX_BYTES && !secret);
        let kept = [header::CONTENT_TYPE, header::LOCATION, header::ETAG, header::RETRY_AFTER];
        let headers = kept.iter().filter_map(|name| {
            let value = parts.headers.get(name)?.to_str().ok()?;
            Some((name.to_string(), value.to_owned()))
        });
        Some(Self { status: status.as_u16(), headers: headers.collect(), body: text.map(str::to_owned) })
    }

    fn replay(self, key: &str) -> Result<Response, Problem> {
        let Some(body) = self.body else {
            let detail = format!(
                "the request with the idempotency key `{key}` was completed, but its response was not stored"
            );
            return Err(Problem::conflict("key_done", detail));
        };
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = StatusCode::from_u16(self.status).map_err(Problem::internal)?;
        for (name, value) in self.headers {
            if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(&value)) {
                response.headers_mut().insert(name, value);
            }
        }
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        Ok(response)
    }
}
