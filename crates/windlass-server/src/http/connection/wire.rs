//! Wrappers between the socket and the HTTP library. One wrapper drops clients that stop reading. The other wrapper
//! replaces the library's bare error responses with problems.
//!
//! This module knows no routes.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Sleep, sleep, timeout};

use crate::http::problem::{MEDIA_TYPE, Problem};

/// Time for which the server reads and discards data that the client sends after the last response. If the server
/// closes a socket with unread data, the client may lose the response.
const LINGER: Duration = Duration::from_secs(1);
/// Maximum number of bytes to discard.
const LINGER_BYTES: usize = 1024 * 1024;

/// A socket with a write timeout: the client must keep reading.
pub struct Paced<S> {
    inner: S,
    stall: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Paced<S> {
    /// Fails a write after the client has accepted no byte for `stall`.
    pub fn new(inner: S, stall: Duration) -> Self {
        Self { inner, stall, waiting: None }
    }

    /// Resets the timer on progress. Without progress, fails after the timeout.
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
                "the client did not read the response for too long",
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

/// A connection, as passed to the HTTP library. For bytes that are not a valid request, the library writes a response
/// that has only a status. This wrapper holds that response back, and the connection's task writes a problem instead.
pub struct Spoken<S> {
    inner: S,
    is_held: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Spoken<S> {
    pub fn new(inner: S) -> Self {
        Self { inner, is_held: false }
    }

    /// Sends a problem in response to an invalid request.
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

    /// Shuts down the write side, then reads and discards remaining data of the client, for at most `LINGER`.
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
        // If the client keeps sending, close the connection anyway.
        let _ = timeout(LINGER, rest).await;
    }
}

/// Returns whether the bytes are a response that the HTTP library generated. All our own responses have an
/// `x-request-id`.
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
