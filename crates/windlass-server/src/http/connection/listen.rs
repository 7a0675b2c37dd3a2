//! Accepts connections, limits their time and number, and drains them at shutdown.
//!
//! HTTP/1.1 with or without TLS. For HTTP/2, use a reverse proxy.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::tls::Certificate;
use super::wire::{Paced, Spoken};
use crate::config::{Range, ServerLimits};
use crate::http::middleware::peer::{Peer, address_of};
use crate::http::problem::Problem;

/// Maximum number of headers, and maximum size of request line and headers in bytes: several times what browsers send.
const HEADERS: usize = 100;
const HEAD_MAX_BYTES: usize = 64 * 1024;
/// Delay before the next `accept` if the process has run out of file descriptors.
const BREATHE: Duration = Duration::from_millis(100);

/// A bound listener.
pub struct Listening {
    /// The bound address, with the port that the system assigned.
    pub address: SocketAddr,
    listener: TcpListener,
}

/// Options for serving connections.
pub struct Terms {
    /// Connection limits and timeouts.
    pub limits: ServerLimits,
    /// Trusted proxies. The server does not count their connections by address, because a proxy forwards requests of
    /// many clients.
    pub proxies: Vec<Range>,
    /// The certificate, if the server uses TLS.
    pub certificate: Option<Certificate>,
}

/// State that the connection tasks share.
struct Hall {
    terms: Terms,
    router: Router,
    stopping: CancellationToken,
    guests: Mutex<HashMap<IpAddr, Guests>>,
}

/// The open connections of one address.
#[derive(Default)]
struct Guests {
    count: usize,
    /// Whether the server has logged the limit. The limit is logged once, and again only after half of the connections
    /// have closed.
    is_told: bool,
}

pub async fn listen(address: SocketAddr) -> io::Result<Listening> {
    let listener = TcpListener::bind(address).await?;
    Ok(Listening { address: listener.local_addr()?, listener })
}

impl Listening {
    /// Serves until `stopping` is cancelled, then waits for requests in progress, up to the stop timeout.
    pub async fn serve(self, router: Router, stopping: CancellationToken, terms: Terms) {
        let connections = terms.limits.connections();
        let room = Arc::new(Semaphore::new(connections));
        let patience = terms.limits.stop_timeout();
        let hall = Arc::new(Hall { terms, router, stopping, guests: Mutex::default() });
        loop {
            let accepted = tokio::select! {
                () = hall.stopping.cancelled() => break,
                accepted = accept(&self.listener, &room) => accepted,
            };
            let Ok((stream, peer, permit)) = accepted else {
                tokio::time::sleep(BREATHE).await;
                continue;
            };
            let Some(seat) = hall.seat(peer.ip()) else { continue };
            let hall = hall.clone();
            tokio::spawn(async move {
                hall.attend(stream, peer).await;
                drop((seat, permit));
            });
        }
        drop(self.listener);
        // Invariant: the configured limit fits in `u32`, because the limit is capped when it is read.
        let all = u32::try_from(connections).unwrap_or(u32::MAX);
        let _ = timeout(patience, room.acquire_many(all)).await;
    }
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    // Invariant: the semaphore is never closed.
    let permit = room.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, permit))
}

/// A connection's slot in the count of its address; released on drop.
struct Seat(Option<(Arc<Hall>, IpAddr)>);

impl Drop for Seat {
    fn drop(&mut self) {
        let Some((hall, address)) = self.0.take() else { return };
        let mut guests = hall.guests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_address) = guests.get_mut(&address) {
            of_address.count -= 1;
            of_address.is_told &= of_address.count > hall.terms.limits.connections_per_address() / 2;
            if of_address.count == 0 {
                guests.remove(&address);
            }
        }
    }
}

impl Hall {
    /// Counts a connection of an address. Returns `None` if the address has too many.
    fn seat(self: &Arc<Self>, address: IpAddr) -> Option<Seat> {
        if self.terms.proxies.iter().any(|range| range.has(address)) {
            return Some(Seat(None));
        }
        let address = address_of(address);
        let mut guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        let of_address = guests.entry(address).or_default();
        if of_address.count >= self.terms.limits.connections_per_address() {
            if !std::mem::replace(&mut of_address.is_told, true) {
                tracing::warn!(%address, connections = of_address.count, "too many connections from one \
                    address");
            }
            return None;
        }
        of_address.count += 1;
        Some(Seat(Some((self.clone(), address))))
    }

    async fn attend(&self, stream: TcpStream, peer: SocketAddr) {
        // Send small responses immediately. If the option cannot be set, the connection still works.
        let _ = stream.set_nodelay(true);
        let stream = Paced::new(stream, self.terms.limits.stall_timeout());
        let Some(certificate) = &self.terms.certificate else {
            return self.speak(stream, Peer { address: peer, secure: false }).await;
        };
        match timeout(self.terms.limits.head_timeout(), certificate.accept(stream)).await {
            Ok(Ok(stream)) => self.speak(stream, Peer { address: peer, secure: true }).await,
            Ok(Err(error)) => tracing::info!(%peer, %error, "the TLS handshake failed"),
            Err(_) => tracing::info!(%peer, "the TLS handshake timed out"),
        }
    }

    async fn speak(&self, stream: impl AsyncRead + AsyncWrite + Unpin, peer: Peer) {
        let mut server = http1::Builder::new();
        server
            .timer(TokioTimer::new())
            .header_read_timeout(self.terms.limits.head_timeout())
            .max_headers(HEADERS)
            .max_buf_size(HEAD_MAX_BYTES);
        let service = service_fn(|request: http::Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(ConnectInfo(peer.address));
            request.extensions_mut().insert(peer);
            let router = self.router.clone();
            async move {
                Ok::<_, Infallible>(router.oneshot(request).await.unwrap_or_else(|never| match never {}))
            }
        });
        let mut io = TokioIo::new(Spoken::new(stream));
        let ended = {
            let mut connection = pin!(server.serve_connection(&mut io, service));
            tokio::select! {
                ended = connection.as_mut() => ended,
                () = self.stopping.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            }
        };
        let mut spoken = io.into_inner();
        if let Err(error) = ended {
            let Some(problem) = refusal(&error) else {
                tracing::info!(peer = %peer.address, %error, "a connection was dropped");
                return;
            };
            tracing::info!(peer = %peer.address, problem = %problem.code, %error, "a connection was rejected");
            if spoken.refuse(&problem).await.is_err() {
                return;
            }
        }
        spoken.close().await;
    }
}

/// Rejects a request whose head is too large. The HTTP library limits only its read buffer, which may contain more than
/// the head.
pub async fn check_head(request: Request, next: Next) -> Response {
    let line = request.method().as_str().len() + request.uri().to_string().len();
    let headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    if line + headers.sum::<usize>() <= HEAD_MAX_BYTES {
        return next.run(request).await;
    }
    let mut response = too_large().into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn too_large() -> Problem {
    let detail =
        format!("the request head is larger than {HEAD_MAX_BYTES} bytes, or has more than {HEADERS} headers");
    Problem::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large", detail)
}

/// Returns the response to an invalid request, or `None` if the client can no longer receive a response.
fn refusal(error: &hyper::Error) -> Option<Problem> {
    if error.is_parse_too_large() {
        return Some(too_large());
    }
    if error.is_parse() {
        return Some(Problem::bad_request(format!("the request is not valid HTTP/1.1: {error}")));
    }
    let slow =
        || Problem::new(StatusCode::REQUEST_TIMEOUT, "slow_head", "the request head did not arrive in time");
    error.is_timeout().then(slow)
}
