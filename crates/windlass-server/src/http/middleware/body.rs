//! Request bodies in transit: aborts a body that arrives too slowly, and rejects encoded bodies.
//!
//! Each route sets its own maximum size. `input.rs` parses the content.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};
use hyper::body::{Body as _, Frame, SizeHint};
use tokio::time::{Sleep, sleep};
use windlass::clock::SystemClock;
use windlass::port::clock::Clock;

use crate::http::Shared;
use crate::http::problem::Problem;

/// Minimum transfer rate of a body. Received bytes extend the deadline, up to a maximum time.
#[derive(Clone, Copy, Debug)]
struct Pace {
    bytes_per_second: u64,
    /// Maximum total time that the server waits for a body, in milliseconds.
    longest_ms: u64,
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The pace of JSON bodies: a lower rate than any common connection has, and at most two minutes.
const JSON: Pace = Pace { bytes_per_second: 1_024, longest_ms: 120_000 };
/// Minimum rate of file uploads. A file occupies one of few upload slots, so the rate is that of a slow mobile
/// connection.
const FILE_BYTES_PER_SECOND: u64 = 32 * 1_024;

impl Pace {
    /// Returns the pace for a request. `file_max_bytes` is the maximum file size.
    fn of(request: &Request, grace: Duration, file_max_bytes: u64) -> Self {
        let path = request.uri().path();
        let is_file = path.starts_with("/api/v1/files/") || path.ends_with("/files/content");
        if request.method() == Method::PUT && is_file { Self::of_files(grace, file_max_bytes) } else { JSON }
    }

    /// Returns the pace of a file upload. The maximum time is the time that the largest file takes at the minimum rate.
    fn of_files(grace: Duration, max_bytes: u64) -> Self {
        let longest_ms = max_bytes.saturating_mul(1_000) / FILE_BYTES_PER_SECOND;
        Self { bytes_per_second: FILE_BYTES_PER_SECOND, longest_ms: longest_ms.saturating_add(millis(grace)) }
    }
}

/// Limits how long a request's body may take, and rejects encoded bodies.
pub async fn watch(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let encoded = request.headers().get(header::CONTENT_ENCODING);
    if encoded.is_some_and(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity")) {
        let problem = Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_encoding",
            "encoded request bodies are not supported",
        );
        let mut response = problem.hint("send the body without `content-encoding`").into_response();
        response.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        return response;
    }
    let is_late = Arc::new(AtomicBool::new(false));
    let grace = app.config.settings.server.limits.body_grace();
    let pace = Pace::of(&request, grace, app.config.settings.files.max_bytes());
    let request = request.map(|body| match body.is_end_stream() {
        true => body,
        false => Body::new(Incoming::new(body, grace, pace, is_late.clone())),
    });
    let response = next.run(request).await;
    if is_late.load(Ordering::Relaxed) {
        let detail = "the request body did not arrive in time";
        let mut response = Problem::new(StatusCode::REQUEST_TIMEOUT, "slow_body", detail).into_response();
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        return response;
    }
    response
}

/// A body with a deadline.
struct Incoming {
    body: Body,
    grace_ms: u64,
    pace: Pace,
    clock: SystemClock,
    /// Total time for which the server has waited for data, in milliseconds.
    waited_ms: u64,
    bytes: u64,
    waiting: Option<(u64, Pin<Box<Sleep>>)>,
    is_late: Arc<AtomicBool>,
}

impl Incoming {
    fn new(body: Body, grace: Duration, pace: Pace, is_late: Arc<AtomicBool>) -> Self {
        let clock = SystemClock::new();
        Self { body, grace_ms: millis(grace), pace, clock, waited_ms: 0, bytes: 0, waiting: None, is_late }
    }

    /// Returns the time to wait for the next bytes, in milliseconds.
    fn left_ms(&self) -> u64 {
        let bought_ms = self.bytes.saturating_mul(1_000) / self.pace.bytes_per_second;
        // Bytes that arrived quickly must not permit an unlimited pause.
        let waited_ms = self.waited_ms.saturating_sub(bought_ms);
        let longest_ms = self.pace.longest_ms.max(self.grace_ms);
        self.grace_ms.saturating_sub(waited_ms).min(longest_ms.saturating_sub(self.waited_ms))
    }
}

/// The error of an aborted body.
#[derive(Debug, thiserror::Error)]
#[error("the body did not arrive in time")]
struct Late;

impl hyper::body::Body for Incoming {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            if let Some((since_ms, _)) = this.waiting.take() {
                this.waited_ms += this.clock.monotonic_ms().saturating_sub(since_ms);
            }
            if let Some(Ok(frame)) = &frame {
                this.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
            }
            return Poll::Ready(frame);
        }
        let (now_ms, left_ms) = (this.clock.monotonic_ms(), this.left_ms());
        let waiting =
            this.waiting.get_or_insert_with(|| (now_ms, Box::pin(sleep(Duration::from_millis(left_ms)))));
        ready!(waiting.1.as_mut().poll(context));
        this.is_late.store(true, Ordering::Relaxed);
        Poll::Ready(Some(Err(axum::Error::new(Late))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use http_body_util::BodyExt;

    use super::*;

    /// Reads a body to its end with the given grace. Returns whether the body arrived in time, and whether it was
    /// flagged as late.
    async fn read(body: Body, grace_ms: u64) -> (bool, bool) {
        read_at(JSON, body, grace_ms).await
    }

    async fn read_at(pace: Pace, body: Body, grace_ms: u64) -> (bool, bool) {
        let is_late = Arc::new(AtomicBool::new(false));
        let body = Incoming::new(body, Duration::from_millis(grace_ms), pace, is_late.clone());
        (body.collect().await.is_ok(), is_late.load(Ordering::Relaxed))
    }

    #[test]
    fn bytes_buy_time_up_to_an_end() {
        let left = |pace: Pace, bytes: u64, waited_ms: u64| {
            let mut body =
                Incoming::new(Body::empty(), Duration::from_secs(15), pace, Arc::new(AtomicBool::new(false)));
            (body.bytes, body.waited_ms) = (bytes, waited_ms);
            body.left_ms()
        };
        // 1.1 KB/s without an end: a client that tries to occupy its slot.
        assert_eq!(left(JSON, 60 * 1_100, 60_000), 15_000);
        assert_eq!(left(JSON, 119 * 1_100, 119_000), 1_000);
        assert_eq!(left(JSON, 120 * 1_100, 120_000), 0);
        let grace = Duration::from_secs(15);
        let file = Pace::of_files(grace, 25 * 1024 * 1024);
        assert_eq!(left(file, 20 * 1_100, 20_000), 0);
        assert_eq!(left(file, 599 * 40_000, 599_000), 15_000);
        // The largest file at the minimum rate, with one pause as long as the grace period.
        assert_eq!(left(file, 799 * FILE_BYTES_PER_SECOND, 799_000), 15_000);
        assert_eq!(left(file, 800 * FILE_BYTES_PER_SECOND, 814_000), 1_000);
        assert_eq!(left(file, 800 * FILE_BYTES_PER_SECOND, 815_000), 0);
        let pace = |method: Method, path: &str| {
            let request = http::Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
            Pace::of(&request, grace, 25 * 1024 * 1024).longest_ms
        };
        assert_eq!(pace(Method::PUT, "/api/v1/files/a.bin"), file.longest_ms);
        assert_eq!(pace(Method::PUT, "/api/v1/threads/t/files/content?path=a"), file.longest_ms);
        assert_eq!(pace(Method::POST, "/api/v1/runs"), JSON.longest_ms);
        assert_eq!(pace(Method::PUT, "/api/v1/auto-run"), JSON.longest_ms);
    }

    #[tokio::test]
    async fn a_body_without_end_is_given_up_and_a_slow_one_may_pay_with_bytes() {
        let first = futures::stream::iter([Ok::<_, axum::Error>(Bytes::from_static(b"{"))]);
        let hangs = Body::from_stream(first.chain(futures::stream::pending()));
        assert_eq!(read(hangs, 20).await, (false, true));
        // Together the chunks take longer than the grace period. Chunks that are large enough extend the deadline.
        let slow = |size: usize| {
            let parts = futures::stream::iter(0..4).then(move |_| async move {
                sleep(Duration::from_millis(300)).await;
                Ok::<_, axum::Error>(Bytes::from(vec![b' '; size]))
            });
            Body::from_stream(parts.boxed())
        };
        assert_eq!(read(slow(1_024), 900).await, (true, false));
        assert_eq!(read(slow(1), 900).await, (false, true));
        assert_eq!(read(Body::from("{}"), 900).await, (true, false));
    }
}
