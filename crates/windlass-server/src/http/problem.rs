//! What went wrong, as `application/problem+json` (RFC 9457): a code for programs, words for people, and what to do.
//!
//! Details of the inside stay in the log, under the request's id; nothing here shows one.

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

/// The media type of a problem.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// What went wrong with a request. Answered as `application/problem+json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The HTTP status.
    pub status: StatusCode,
    /// The code for programs.
    pub code: Cow<'static, str>,
    /// What was wrong, with the offending value.
    pub detail: String,
    /// What to do next.
    pub hint: Option<String>,
    /// Seconds after which another try makes sense.
    pub retry_after: Option<u64>,
}

/// A problem as it is sent.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
struct Document<'a> {
    /// `urn:windlass:problem:` and the code.
    #[serde(rename = "type")]
    #[schema(example = "urn:windlass:problem:not_found")]
    kind: String,
    /// The status's meaning in a few words.
    title: &'a str,
    /// The HTTP status.
    #[schema(example = 404)]
    status: u16,
    /// The code for programs.
    #[schema(example = "not_found")]
    code: &'a str,
    /// What was wrong, with the offending value.
    detail: &'a str,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    /// Seconds after which another try makes sense.
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
    /// A problem of a status, with its code and what was wrong.
    pub fn new(status: StatusCode, code: impl Into<Cow<'static, str>>, detail: impl Into<String>) -> Self {
        Self { status, code: code.into(), detail: detail.into(), hint: None, retry_after: None }
    }

    /// Adds what to do next.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds after how many seconds another try makes sense.
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// 400: the request makes no sense.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", detail)
    }

    /// 401: nobody is known to ask.
    pub fn unauthenticated(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", detail)
            .hint("sign in, or send an API key as `Authorization: Bearer …`")
    }

    /// 403: whoever asks may not.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// 404: there is no such thing, or whoever asks may not know of it.
    pub fn not_found(what: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", format!("{what} does not exist"))
    }

    /// 409: not in the present state.
    pub fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, detail)
    }

    /// 422: well-formed, and cannot be done.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail)
    }

    /// 500: our fault. What happened goes to the log alone.
    pub fn internal(error: impl std::fmt::Display) -> Self {
        tracing::error!(error = %error, "a request failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "something went wrong in the server")
            .hint("the server's log has more under this request's `x-request-id`")
    }
}

/// A problem's code, beside the answer that tells it: the log has it too.
#[derive(Clone, Debug)]
pub struct Code(pub Cow<'static, str>);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // Strings and numbers: nothing that the serialiser refuses.
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
                    "`windlass approvals` answers it at a terminal, `windlass resume {run}` resumes it"
                );
                Self::conflict("not_reached", format!("{error}; {hint}"))
            }
            EngineError::Model(error) => Self::new(StatusCode::BAD_GATEWAY, "model", error.to_string()),
            EngineError::Pending { thread, driver } => pending(&thread.to_string(), &driver),
            EngineError::Stopped { thread, why } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "stopped", format!("thread `{thread}`: {why}"))
                    .retry_after(1)
            }
            // Journals that cannot be folded, and whatever the library learns to report later.
            other => Self::internal(other),
        }
    }
}

/// The input is kept for whoever drives the thread: accepted, with nothing to show yet.
fn pending(thread: &str, driver: &SlowDriver) -> Problem {
    let detail =
        format!("thread `{thread}` is driven by {driver}, which has not answered yet; the input is kept");
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
