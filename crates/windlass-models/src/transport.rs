//! The HTTP layer under the wires: silence becomes a time-out, a cut is told from an end, and what is
//! no event stream comes back as an error with its body.
//!
//! It also puts on the wire what the library has no setting for: key placement and further headers.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Request, Response, Uri};
use rig_core::http_client::{
    BoxedStream, Error, HttpClientExt, LazyBody, MultipartForm, Result, StreamingResponse,
};
use rig_reqwest::ReqwestClient;
use tokio::time::Sleep;
use windlass_engine::port::model::ModelError;

/// What went wrong below the protocol.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum LinkError {
    /// Nothing was sent: something is missing on this side.
    #[cfg_attr(
        not(any(feature = "bedrock", feature = "vertex")),
        expect(dead_code, reason = "only a cloud is signed in to at the first call")
    )]
    Unready(Box<ModelError>),
    /// Nothing came for too long.
    Stalled(Duration),
    /// The body broke off after it had begun. The library's cause names its parser's state, so it is only logged.
    Cut,
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unready(error) => error.fmt(f),
            Self::Stalled(limit) => write!(f, "no byte for {} ms", limit.as_millis()),
            Self::Cut => f.write_str("the connection broke before the reply was complete"),
        }
    }
}

impl std::error::Error for LinkError {}

/// What a request needs beside what the wire encodes.
pub(super) struct LinkOptions {
    /// Silence after which the call has failed.
    pub stall_timeout: Duration,
    /// Headers set last; a value replaces what the wire set.
    pub headers: HeaderMap,
    /// Headers that the wire sets and this endpoint must not see.
    pub removed: Vec<HeaderName>,
    /// Bodies whose end is still on its way.
    pub endings: Endings,
    /// Where the request goes instead, and who signs in there.
    #[cfg(feature = "vertex")]
    pub route: Option<crate::cloud::vertex::Route>,
}

/// Bodies that were read as far as anybody needs, until their ends have come: one that is dropped before takes its
/// connection with it. No reply waits for that; the next call does, because a new connection takes longer.
#[derive(Default)]
pub(super) struct Endings(Mutex<Vec<BoxedStream>>);

impl Endings {
    /// How long a call waits for an end. Bodies without one are dropped then.
    const PATIENCE: Duration = Duration::from_millis(50);

    fn keep(&self, mut body: BoxedStream) {
        if has_ended(&mut body, &mut Context::from_waker(Waker::noop())).is_pending() {
            self.kept().push(body);
        }
    }

    /// Waits until a connection is free again, where one is about to be.
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

    fn kept(&self) -> MutexGuard<'_, Vec<BoxedStream>> {
        // Nothing leaves the list halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn has_ended(body: &mut BoxedStream, context: &mut Context<'_>) -> Poll<()> {
    while let Some(Ok(_)) = ready!(body.as_mut().poll_next(context)) {}
    Poll::Ready(())
}

/// One call's HTTP client.
#[derive(Clone)]
pub(super) struct Link {
    http: ReqwestClient,
    options: Arc<LinkOptions>,
    remainder: Remainder,
}

/// What is left of a body once enough of it has been read. Reading it out lets the connection be used again.
#[derive(Clone, Default)]
pub(super) struct Remainder(Arc<Mutex<Option<BoxedStream>>>);

impl Remainder {
    /// Leaves the rest of a body to the endpoint.
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
    /// Makes the client of one call.
    pub(super) fn new(http: ReqwestClient, options: Arc<LinkOptions>) -> Self {
        Self { http, options, remainder: Remainder::default() }
    }

    /// Where the rest of the body will be found.
    pub(super) fn remainder(&self) -> Remainder {
        self.remainder.clone()
    }

    /// Sends a request and returns the event stream, or an error for any other answer.
    pub(super) async fn open(&self, request: Request<Bytes>) -> Result<StreamingResponse> {
        let (mut parts, body) = request.into_parts();
        key_out_of_address(&mut parts.uri, &mut parts.headers);
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
            let response = self.http.send_streaming(request).await?;
            if is_event_stream(response.headers()) { Ok(response) } else { Err(not_a_stream(response).await) }
        };
        let response = match tokio::time::timeout(stall, opening).await {
            Ok(opened) => opened?,
            Err(_) => return Err(Error::instance(LinkError::Stalled(stall))),
        };
        let (parts, body) = response.into_parts();
        let body: BoxedStream = Box::pin(Watched::new(body, stall, self.remainder()));
        Ok(Response::from_parts(parts, body))
    }

    #[cfg(feature = "vertex")]
    async fn redirected(&self, request: Request<Bytes>) -> Result<Request<Bytes>> {
        let Some(route) = &self.options.route else { return Ok(request) };
        route.redirect(request).await.map_err(|error| Error::instance(LinkError::Unready(Box::new(error))))
    }
}

impl HttpClientExt for Link {
    fn send<T, U>(
        &self,
        request: Request<T>,
    ) -> impl Future<Output = Result<Response<LazyBody<U>>>> + Send + 'static
    where
        T: Into<Bytes> + Send,
        U: From<Bytes> + Send + 'static,
    {
        self.http.send(request)
    }

    fn send_multipart<U>(
        &self,
        request: Request<MultipartForm>,
    ) -> impl Future<Output = Result<Response<LazyBody<U>>>> + Send + 'static
    where
        U: From<Bytes> + Send + 'static,
    {
        self.http.send_multipart(request)
    }

    fn send_streaming<T>(&self, request: Request<T>) -> impl Future<Output = Result<StreamingResponse>> + Send
    where
        T: Into<Bytes> + Send,
    {
        let request = request.map(Into::into);
        self.open(request)
    }
}

/// Gemini's key travels in the address, which ends up in logs; its header takes it as well.
fn key_out_of_address(uri: &mut Uri, headers: &mut HeaderMap) {
    let Some((path, query)) = uri.path_and_query().and_then(|whole| whole.as_str().split_once('?')) else {
        return;
    };
    let Some(key) = query.split('&').find_map(|pair| pair.strip_prefix("key=")) else { return };
    let Ok(value) = HeaderValue::from_str(key) else { return };
    let rest: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("key=")).collect();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = format!("{path}?{}", rest.join("&")).parse().ok();
    if let Ok(clean) = Uri::from_parts(parts) {
        *uri = clean;
        headers.insert("x-goog-api-key", sensitive(value));
    }
}

/// Marks a header value so that no logger prints it.
pub(super) fn sensitive(mut value: HeaderValue) -> HeaderValue {
    value.set_sensitive(true);
    value
}

/// The header of a bearer token; `None` where the token has bytes that no header can hold.
pub(super) fn bearer(token: &str) -> Option<(HeaderName, HeaderValue)> {
    Some((AUTHORIZATION, sensitive(HeaderValue::from_str(&format!("Bearer {token}")).ok()?)))
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
}

/// A success that is no event stream: a login page, or an error with the wrong status. Its body tells which.
async fn not_a_stream(response: StreamingResponse) -> Error {
    const KEPT: usize = 64 * 1024;
    let (parts, mut body) = response.into_parts();
    let mut kept = BytesMut::new();
    while let Some(Ok(chunk)) = body.next().await {
        kept.extend_from_slice(&chunk[..chunk.len().min(KEPT - kept.len())]);
        if kept.len() >= KEPT {
            break;
        }
    }
    let text = String::from_utf8_lossy(&kept).into_owned();
    Error::non_success_with_details(parts.status, parts.headers, text)
}

/// A body that fails once nothing has come for the whole limit.
///
/// A timer that is set back at each chunk would cost more than the chunk, so it ticks four times per
/// limit and counts the ticks without a byte: a stall is found between one limit and a quarter more.
struct Watched {
    /// `None` once it has ended.
    body: Option<BoxedStream>,
    tick: Pin<Box<Sleep>>,
    limit: Duration,
    quiet_ticks: u8,
    remainder: Remainder,
}

impl Watched {
    const TICKS: u8 = 4;

    fn new(body: BoxedStream, limit: Duration, remainder: Remainder) -> Self {
        let tick = Box::pin(tokio::time::sleep(limit / u32::from(Self::TICKS)));
        Self { body: Some(body), tick, limit, quiet_ticks: 0, remainder }
    }
}

impl Stream for Watched {
    type Item = Result<Bytes>;

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
            // The first tick may have begun just before a byte, so a whole limit is one tick more.
            self.quiet_ticks += 1;
            if self.quiet_ticks > Self::TICKS {
                self.body = None;
                return Poll::Ready(Some(Err(Error::instance(LinkError::Stalled(self.limit)))));
            }
            let period = self.limit / u32::from(Self::TICKS);
            self.tick.set(tokio::time::sleep(period));
        }
        Poll::Pending
    }
}

impl Drop for Watched {
    /// Hands over the rest. Where nobody reads it out, it goes with the stream, and the connection with it.
    fn drop(&mut self) {
        *self.remainder.0.lock().unwrap_or_else(PoisonError::into_inner) = self.body.take();
    }
}

fn cut(error: Error) -> Error {
    let why = match &error {
        Error::Instance(inner) => root_cause(inner.as_ref()),
        Error::Protocol(_)
        | Error::InvalidStatusCodeWithDetails { .. }
        | Error::InvalidHeaderValue(_)
        | Error::NoHeaders
        | Error::StreamEnded
        | Error::InvalidContentType(_) => error.to_string(),
    };
    tracing::debug!(cause = %why, "the connection broke in a reply");
    Error::instance(LinkError::Cut)
}

/// The innermost cause: the outer ones repeat it and show addresses, which may hold keys.
pub(super) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    match cause.downcast_ref::<reqwest::Error>() {
        Some(outermost) if outermost.is_timeout() => "timed out".to_owned(),
        Some(outermost) if outermost.is_connect() => "no connection".to_owned(),
        Some(_) => "the request failed".to_owned(),
        None => cause.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gemini_key_leaves_the_address() {
        let mut uri: Uri =
            "https://host/v1beta/models/m:streamGenerateContent?alt=sse&key=SECRET".parse().unwrap();
        let mut headers = HeaderMap::new();
        key_out_of_address(&mut uri, &mut headers);
        assert_eq!(uri.to_string(), "https://host/v1beta/models/m:streamGenerateContent?alt=sse");
        assert_eq!(headers["x-goog-api-key"], "SECRET");
    }
}
