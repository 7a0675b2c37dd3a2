//! The HTTP layer under the wires. Silence becomes a timeout, and a truncated body differs from a complete
//! one. A response that is not an event stream becomes an error with its body.
//!
//! The layer also adds the key and the configured headers.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{Stream, TryStreamExt};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Request, StatusCode};
use tokio::time::Sleep;
use windlass_engine::port::model::ModelError;

/// A failure below the protocol.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum LinkError {
    /// No request was sent, because the client lacks something, such as credentials.
    #[cfg_attr(
        not(any(feature = "bedrock", feature = "vertex")),
        expect(dead_code, reason = "only a cloud is signed in to at the first call")
    )]
    Unready(Box<ModelError>),
    /// No data arrived within the limit.
    Stalled(Duration),
    /// The body ended early, after it had begun.
    Cut,
}

/// A body as it arrives.
pub(super) type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, TransportError>> + Send>>;

/// Why no event stream was opened, or why it ended.
#[derive(Debug)]
pub(super) enum TransportError {
    /// A failure below the protocol.
    Link(LinkError),
    /// The HTTP client failed.
    Http(reqwest::Error),
    /// The response is not an event stream.
    Answer(Box<Answer>),
}

/// A response that is not an event stream.
#[derive(Debug)]
pub(super) struct Answer {
    /// The status, which may be a success.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The beginning of the body.
    pub body: String,
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unready(error) => error.fmt(f),
            Self::Stalled(limit) => write!(f, "no data for {} ms", limit.as_millis()),
            Self::Cut => f.write_str("the connection was lost before the reply was complete"),
        }
    }
}

impl std::error::Error for LinkError {}

/// Settings of a request in addition to what the wire encodes.
pub(super) struct LinkOptions {
    /// Duration without data after which the call fails.
    pub stall_timeout: Duration,
    /// Headers that are set last and replace those of the wire.
    pub headers: HeaderMap,
    /// Headers of the wire that must not be sent to this endpoint.
    pub removed: Vec<HeaderName>,
    /// Response bodies that have not ended yet.
    pub endings: Endings,
    /// Replaces the URL and adds credentials.
    #[cfg(feature = "vertex")]
    pub route: Option<crate::cloud::vertex::Route>,
}

/// Response bodies that were read as far as needed. They are kept until they end, because
/// dropping a body earlier closes its connection. Replies do not wait for the end, but the next
/// call does, because a new connection takes longer.
#[derive(Default)]
pub(super) struct Endings(Mutex<Vec<ByteStream>>);

impl Endings {
    /// Maximum time that a call waits for the bodies to end. Bodies that have not ended by then are dropped.
    const PATIENCE: Duration = Duration::from_millis(50);

    fn keep(&self, mut body: ByteStream) {
        if has_ended(&mut body, &mut Context::from_waker(Waker::noop())).is_pending() {
            self.kept().push(body);
        }
    }

    /// Waits for a connection to become free, if a body is about to end.
    async fn settle(&self) {
        let mut bodies = std::mem::take(&mut *self.kept());
        if bodies.is_empty() {
            return;
        }
        let one_ended = std::future::poll_fn(|context| {
            let before = bodies.len();
            bodies.retain_mut(|body| has_ended(body, context).is_pending());
            if bodies.len() < before { Poll::Ready(()) } else { Poll::Pending }
        });
        if tokio::time::timeout(Self::PATIENCE, one_ended).await.is_ok() {
            self.kept().append(&mut bodies);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<ByteStream>> {
        // A panic cannot leave the list invalid: each change is complete in itself.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn has_ended(body: &mut ByteStream, context: &mut Context<'_>) -> Poll<()> {
    while let Some(Ok(_)) = ready!(body.as_mut().poll_next(context)) {}
    Poll::Ready(())
}

/// The HTTP client of one call.
#[derive(Clone)]
pub(super) struct Link {
    http: reqwest::Client,
    options: Arc<LinkOptions>,
    remainder: Remainder,
}

/// The unread rest of a body. If the rest is read to its end, the connection can be reused.
#[derive(Clone, Default)]
pub(super) struct Remainder(Arc<Mutex<Option<ByteStream>>>);

impl Remainder {
    /// Moves the rest of a body to the endpoint.
    pub(super) fn leave_to(&self, endpoint: &LinkOptions) {
        let left = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(body) = left {
            endpoint.endings.keep(body);
        }
    }
}

impl Remainder {
    /// Drops the rest of a body, which closes its connection.
    pub(super) fn discard(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Link {
    /// Creates the client of one call.
    pub(super) fn new(http: reqwest::Client, options: Arc<LinkOptions>) -> Self {
        Self { http, options, remainder: Remainder::default() }
    }

    /// Returns the slot that will receive the rest of the body.
    pub(super) fn remainder(&self) -> Remainder {
        self.remainder.clone()
    }

    /// Sends a request. Returns the event stream, or an error for any other response.
    pub(super) async fn open(&self, request: Request<Bytes>) -> Result<ByteStream, TransportError> {
        let (mut parts, body) = request.into_parts();
        for name in &self.options.removed {
            parts.headers.remove(name);
        }
        for (name, value) in &self.options.headers {
            parts.headers.insert(name, value.clone());
        }
        let request = Request::from_parts(parts, body);
        let stall = self.options.stall_timeout;
        let opening = async {
            self.options.endings.settle().await;
            #[cfg(feature = "vertex")]
            let request = self.redirected(request).await?;
            let request = reqwest::Request::try_from(request).map_err(TransportError::Http)?;
            let response = self.http.execute(request).await.map_err(TransportError::Http)?;
            if response.status().is_success() && is_event_stream(response.headers()) {
                Ok(response)
            } else {
                Err(answer(response).await)
            }
        };
        let response = match tokio::time::timeout(stall, opening).await {
            Ok(opened) => opened?,
            Err(_) => return Err(TransportError::Link(LinkError::Stalled(stall))),
        };
        Ok(Box::pin(Watched::new(response, stall, self.remainder())))
    }

    #[cfg(feature = "vertex")]
    async fn redirected(&self, request: Request<Bytes>) -> Result<Request<Bytes>, TransportError> {
        let Some(route) = &self.options.route else { return Ok(request) };
        let unready = |error| TransportError::Link(LinkError::Unready(Box::new(error)));
        route.redirect(request).await.map_err(unready)
    }
}

/// Marks a header value so that no logger prints it.
pub(super) fn sensitive(mut value: HeaderValue) -> HeaderValue {
    value.set_sensitive(true);
    value
}

/// Returns the header of a bearer token; `None` if the token contains invalid bytes.
pub(super) fn bearer(token: &str) -> Option<(HeaderName, HeaderValue)> {
    Some((AUTHORIZATION, sensitive(HeaderValue::from_str(&format!("Bearer {token}")).ok()?)))
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
}

/// Converts a response that is not an event stream to an error: an error status, a login page, or an error
/// with a success status. Reads the beginning of its body.
async fn answer(mut response: reqwest::Response) -> TransportError {
    const KEPT: usize = 64 * 1024;
    let mut kept = BytesMut::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        kept.extend_from_slice(&chunk[..chunk.len().min(KEPT - kept.len())]);
        if kept.len() >= KEPT {
            break;
        }
    }
    TransportError::Answer(Box::new(Answer {
        status: response.status(),
        headers: std::mem::take(response.headers_mut()),
        body: String::from_utf8_lossy(&kept).into_owned(),
    }))
}

/// A body that fails if no data arrives for a time.
///
/// Resetting a timer at each chunk would cost more than the chunk. So a timer ticks four times per limit, and
/// ticks without a byte are counted. A stall is detected after one limit to one and a quarter limits.
struct Watched {
    /// The body; `None` after its end.
    body: Option<ByteStream>,
    tick: Pin<Box<Sleep>>,
    limit: Duration,
    quiet_ticks: u8,
    remainder: Remainder,
}

impl Watched {
    const TICKS: u8 = 4;

    fn new(response: reqwest::Response, limit: Duration, remainder: Remainder) -> Self {
        let tick = Box::pin(tokio::time::sleep(limit / u32::from(Self::TICKS)));
        let body = response.bytes_stream().map_err(TransportError::Http);
        Self { body: Some(Box::pin(body)), tick, limit, quiet_ticks: 0, remainder }
    }
}

impl Stream for Watched {
    type Item = Result<Bytes, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        if let Poll::Ready(next) = body.as_mut().poll_next(context) {
            self.quiet_ticks = 0;
            return Poll::Ready(match next {
                Some(Ok(chunk)) => Some(Ok(chunk)),
                Some(Err(error)) => {
                    self.body = None;
                    Some(Err(cut(error)))
                }
                None => {
                    self.body = None;
                    None
                }
            });
        }
        while self.tick.as_mut().poll(context).is_ready() {
            // The first tick may have begun just before a byte arrived, so a whole limit needs one more tick.
            self.quiet_ticks += 1;
            if self.quiet_ticks > Self::TICKS {
                self.body = None;
                return Poll::Ready(Some(Err(TransportError::Link(LinkError::Stalled(self.limit)))));
            }
            let period = self.limit / u32::from(Self::TICKS);
            self.tick.set(tokio::time::sleep(period));
        }
        Poll::Pending
    }
}

impl Drop for Watched {
    /// Moves the rest of the body to `remainder`. If nothing reads the rest, it is dropped with
    /// the stream, which closes the connection.
    fn drop(&mut self) {
        *self.remainder.0.lock().unwrap_or_else(PoisonError::into_inner) = self.body.take();
    }
}

fn cut(error: TransportError) -> TransportError {
    if let TransportError::Http(error) = &error {
        tracing::debug!(cause = %root_cause(error), "the connection was lost during a reply");
    }
    TransportError::Link(LinkError::Cut)
}

/// Returns the innermost cause. Outer errors repeat it and contain URLs, which may contain keys.
pub(super) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    match cause.downcast_ref::<reqwest::Error>() {
        Some(outermost) if outermost.is_timeout() => "timed out".to_owned(),
        Some(outermost) if outermost.is_connect() => "connection failed".to_owned(),
        Some(_) => "the request failed".to_owned(),
        None => cause.to_string(),
    }
}
