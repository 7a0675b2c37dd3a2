//! Error responses as `application/problem+json` (RFC 9457), with a code for programs, a message for people, and a
//! hint.
//!
//! Internal details are logged under the request id and never sent.

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use windlass::machine::Reject;
use windlass::port::journal::StoreError;
use windlass::port::records::RecordError;
use windlass::{EngineError, SlowDriver};

pub const MEDIA_TYPE: &str = "application/problem+json";

/// An error response. It is sent as `application/problem+json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub status: StatusCode,
    /// Code for programs.
    pub code: Cow<'static, str>,
    /// What was wrong, with the offending value.
    pub detail: String,
    /// What to do next.
    pub hint: Option<String>,
    /// Seconds to wait before a retry.
    pub retry_after: Option<u64>,
}

/// The serialized form of a problem.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
struct Document<'a> {
    /// `urn:windlass:problem:` followed by the code.
    #[serde(rename = "type")]
    #[schema(example = "urn:windlass:problem:not_found")]
    kind: String,
    /// Standard reason phrase of the status.
    title: &'a str,
    /// The HTTP status.
    #[schema(example = 404)]
    status: u16,
    /// Code for programs.
    #[schema(example = "not_found")]
    code: &'a str,
    /// What was wrong, with the offending value.
    detail: &'a str,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    /// Seconds to wait before a retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
}

impl Serialize for Problem {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let document = Document {
            kind: format!("urn:windlass:problem:{}", self.code),
            title: self.status.canonical_reason().unwrap_or("Problem"),
            status: self.status.as_u16(),
            code: &self.code,
            detail: &self.detail,
            hint: self.hint.as_deref(),
            retry_after: self.retry_after,
        };
        document.serialize(serializer)
    }
}

impl PartialSchema for Problem {
    fn schema() -> RefOr<Schema> {
        Document::schema()
    }
}

impl ToSchema for Problem {
    fn name() -> Cow<'static, str> {
        "Problem".into()
    }
}

impl Problem {
    pub fn new(status: StatusCode, code: impl Into<Cow<'static, str>>, detail: impl Into<String>) -> Self {
        Self { status, code: code.into(), detail: detail.into(), hint: None, retry_after: None }
    }

    /// Sets the hint: what to do next.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the number of seconds to wait before a retry.
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// 400: the request is malformed.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", detail)
    }

    /// 401: the request is not authenticated.
    pub fn unauthenticated(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", detail)
            .hint("sign in, or send an API key as `Authorization: Bearer …`")
    }

    /// 403: the caller lacks permission.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// 404: the resource does not exist, or the caller may not know that it exists.
    pub fn not_found(what: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", format!("{what} does not exist"))
    }

    /// 409: the current state of the resource does not allow the request.
    pub fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, detail)
    }

    /// 422: the request is well-formed but invalid.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail)
    }

    /// 500: a server fault. The cause is only logged.
    pub fn internal(error: impl std::fmt::Display) -> Self {
        tracing::error!(error = %error, "a request failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "an internal error occurred")
            .hint("see the server's log under this request's `x-request-id`")
    }
}

/// Response extension with the problem's code, for the request log.
#[derive(Clone, Debug)]
pub struct Code(pub Cow<'static, str>);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // Invariant: the document has only strings and numbers, so it always serializes.
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (self.status, body).into_response();
        response.extensions_mut().insert(Code(self.code));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Rejected(reject) => reject.into(),
            EngineError::Store(error) => error.into(),
            EngineError::NoRun(run) => Self::not_found(format!("run `{run}`")),
            EngineError::NoThread(thread) => Self::not_found(format!("thread `{thread}`")),
            EngineError::NoTool(_) => Self::invalid(error.to_string()),
            EngineError::Config(why) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "config", why),
            EngineError::Active { .. } => Self::conflict("run_active", error.to_string()),
            EngineError::NotReached { ref run, .. } => {
                let hint = format!(
                    "answer it in a terminal with `windlass approvals`, or resume it with `windlass resume \
                     {run}`"
                );
                Self::conflict("not_reached", format!("{error}; {hint}"))
            }
            EngineError::Model(error) => Self::new(StatusCode::BAD_GATEWAY, "model", error.to_string()),
            EngineError::Pending { thread, driver } => pending(&thread.to_string(), &driver),
            EngineError::Stopped { thread, why } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "stopped", format!("thread `{thread}`: {why}"))
                    .retry_after(1)
            }
            // Unreadable journals, and error variants that later versions of the library add.
            other => Self::internal(other),
        }
    }
}

/// 202: the store has the input for the process that drives the thread, and this process has not replied yet.
fn pending(thread: &str, driver: &SlowDriver) -> Problem {
    let detail =
        format!("thread `{thread}` is driven by {driver}, which has not replied yet; the input is stored");
    Problem::new(StatusCode::ACCEPTED, "pending", detail)
}

impl From<Reject> for Problem {
    fn from(reject: Reject) -> Self {
        let said = reject.to_string();
        match reject {
            Reject::Busy => Self::conflict("busy", said),
            Reject::QueueFull { .. } => Self::conflict("queue_full", said),
            Reject::RunActive { nearest, .. } => Self::conflict("run_active", said)
                .hint(format!("fork at event {nearest}, or wait for the run")),
            Reject::Closed { .. } => Self::conflict("closed", said),
            Reject::Stale { .. } => Self::conflict("stale", said),
            Reject::NotFound { .. } => Self::new(StatusCode::NOT_FOUND, "not_found", said),
            Reject::Forbidden { .. } => Self::forbidden(said),
            Reject::Invalid { .. } => Self::invalid(said),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let said = error.to_string();
        match error {
            StoreError::NotFound { .. } => Self::new(StatusCode::NOT_FOUND, "not_found", said),
            StoreError::Refused { .. } => Self::conflict("refused", said),
            StoreError::Unreadable { .. } | StoreError::Corrupt { .. } => Self::internal(said),
            StoreError::Unavailable { .. } => {
                tracing::warn!(error = %said, "the store is not available");
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", "the store is not available")
                    .retry_after(1)
            }
        }
    }
}

impl From<RecordError> for Problem {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Conflict { .. } => {
                Self::new(StatusCode::PRECONDITION_FAILED, "changed", error.to_string())
            }
            RecordError::Store(error) => error.into(),
        }
    }
}
