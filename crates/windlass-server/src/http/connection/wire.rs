//! What lies between a socket and HTTP: a client that stops reading is dropped, and what is no HTTP gets a problem.
//!
//! Nothing here knows a route.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Sleep, sleep, timeout};

use crate::http::problem::{MEDIA_TYPE, Problem};

/// How long what a client still sends is read after the last answer, so that it gets to see the answer: a socket that
/// is closed with bytes unread takes back what was sent.
const LINGER: Duration = Duration::from_secs(1);
/// And how much of it.
const LINGER_BYTES: usize = 1024 * 1024;

/// A socket whose client must go on reading.
pub struct Paced<S> {
    inner: S,
    stall: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Paced<S> {
    /// Drops the client after so long without a byte taken.
    pub fn new(inner: S, stall: Duration) -> Self {
        Self { inner, stall, waiting: None }
    }

    /// Passes progress on; without any, the time runs.
    fn watched<T>(&mut self, context: &mut Context<'_>, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.waiting = None;
            return poll;
        }
        let stall = self.stall;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(stall)));
        match waiting.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the client took no byte of its answer for too long",
            ))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.watched(context, poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write_vectored(context, parts);
        self.watched(context, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

/// A connection as the HTTP library sees it. What the library itself would answer to bytes that are no request has a
/// status and nothing else: it is held back, and the connection's owner says what was wrong.
pub struct Spoken<S> {
    inner: S,
    is_held: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Spoken<S> {
    /// A connection.
    pub fn new(inner: S) -> Self {
        Self { inner, is_held: false }
    }

    /// Answers bytes that were no request.
    pub async fn refuse(&mut self, problem: &Problem) -> io::Result<()> {
        let body = serde_json::to_vec(problem).unwrap_or_default();
        let status = problem.status;
        let reason = status.canonical_reason().unwrap_or_default();
        let head = format!(
            "HTTP/1.1 {} {reason}\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {}\r\n\
             cache-control: no-store\r\nconnection: close\r\n\r\n",
            status.as_u16(),
            body.len()
        );
        self.inner.write_all(head.as_bytes()).await?;
        self.inner.write_all(&body).await?;
        self.inner.flush().await
    }

    /// Says that nothing more comes, and reads for a moment what the client still sends.
    pub async fn close(mut self) {
        if self.inner.shutdown().await.is_err() {
            return;
        }
        let rest = async {
            let (mut read, mut buffer) = (0, vec![0; 16 * 1024]);
            while read < LINGER_BYTES {
                match self.inner.read(&mut buffer).await {
                    Ok(0) | Err(_) => return,
                    Ok(more) => read += more,
                }
            }
        };
        // A client that goes on sending is cut off.
        let _ = timeout(LINGER, rest).await;
    }
}

/// Whether these bytes are an answer of the HTTP library's own: every answer of ours names its request.
fn is_bare(bytes: &[u8]) -> bool {
    bytes.len() < 256
        && bytes.starts_with(b"HTTP/1.1 4")
        && bytes.ends_with(b"\r\n\r\n")
        && !bytes.windows(12).any(|part| part.eq_ignore_ascii_case(b"x-request-id"))
}

impl<S: AsyncRead + Unpin> AsyncRead for Spoken<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Spoken<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if is_bare(bytes) {
            self.is_held = true;
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [only] = parts
            && is_bare(only)
        {
            self.is_held = true;
            return Poll::Ready(Ok(only.len()));
        }
        Pin::new(&mut self.inner).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_held {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
