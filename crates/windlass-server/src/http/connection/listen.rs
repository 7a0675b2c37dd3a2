//! Connections: accepted, bounded in time and number, and let finish when the server stops.
//!
//! HTTP/1.1, in clear or over TLS; HTTP/2 is a proxy's.

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

/// Headers of a request, and what they and the request line may take: several times what browsers send.
const HEADERS: usize = 100;
const HEAD_MAX_BYTES: usize = 64 * 1024;
/// How long to wait where the system has no descriptor left.
const BREATHE: Duration = Duration::from_millis(100);

/// A bound listener.
pub struct Listening {
    /// Where it listens.
    pub address: SocketAddr,
    listener: TcpListener,
}

/// How connections are served.
pub struct Terms {
    /// What the server bears.
    pub limits: ServerLimits,
    /// Whose connections are not counted by address: they bring those of many.
    pub proxies: Vec<Range>,
    /// The certificate, where the server speaks TLS.
    pub certificate: Option<Certificate>,
}

/// What the tasks of connections share.
struct Hall {
    terms: Terms,
    router: Router,
    stopping: CancellationToken,
    guests: Mutex<HashMap<IpAddr, Guests>>,
}

/// Connections of one address.
#[derive(Default)]
struct Guests {
    count: usize,
    /// Whether it was said that there are too many; it is said once until there is room again.
    is_told: bool,
}

/// Binds an address.
pub async fn listen(address: SocketAddr) -> io::Result<Listening> {
    let listener = TcpListener::bind(address).await?;
    Ok(Listening { address: listener.local_addr()?, listener })
}

impl Listening {
    /// Serves until `stopping` is cancelled, then lets requests in progress finish for some seconds.
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
        // A limit that was configured fits: it is capped where it is read.
        let all = u32::try_from(connections).unwrap_or(u32::MAX);
        let _ = timeout(patience, room.acquire_many(all)).await;
    }
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    // The semaphore is never closed.
    let permit = room.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, permit))
}

/// A connection's place among those of its address; given back when it is dropped.
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
    /// Counts a connection of an address; `None` where it has too many.
    fn seat(self: &Arc<Self>, address: IpAddr) -> Option<Seat> {
        if self.terms.proxies.iter().any(|range| range.has(address)) {
            return Some(Seat(None));
        }
        let address = address_of(address);
        let mut guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        let of_address = guests.entry(address).or_default();
        if of_address.count >= self.terms.limits.connections_per_address() {
            if !std::mem::replace(&mut of_address.is_told, true) {
                tracing::warn!(%address, connections = of_address.count, "too many connections of one address");
            }
            return None;
        }
        of_address.count += 1;
        Some(Seat(Some((self.clone(), address))))
    }

    async fn attend(&self, stream: TcpStream, peer: SocketAddr) {
        // A small answer goes out at once. A socket that refuses this works all the same.
        let _ = stream.set_nodelay(true);
        let stream = Paced::new(stream, self.terms.limits.stall_timeout());
        let Some(certificate) = &self.terms.certificate else {
            return self.speak(stream, Peer { address: peer, secure: false }).await;
        };
        match timeout(self.terms.limits.head_timeout(), certificate.accept(stream)).await {
            Ok(Ok(stream)) => self.speak(stream, Peer { address: peer, secure: true }).await,
            Ok(Err(error)) => tracing::info!(%peer, %error, "no TLS came about"),
            Err(_) => tracing::info!(%peer, "no TLS came about in time"),
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
            tracing::info!(peer = %peer.address, problem = %problem.code, %error, "a connection was refused");
            if spoken.refuse(&problem).await.is_err() {
                return;
            }
        }
        spoken.close().await;
    }
}

/// Refuses a request whose head is too large. The HTTP library bounds its buffer, which may hold more than a head.
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
    let detail = format!("the request's head is larger than {HEAD_MAX_BYTES} bytes or {HEADERS} headers");
    Problem::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large", detail)
}

/// What is said of bytes that are no request; `None` where nobody listens any more.
fn refusal(error: &hyper::Error) -> Option<Problem> {
    if error.is_parse_too_large() {
        return Some(too_large());
    }
    if error.is_parse() {
        return Some(Problem::bad_request(format!("the request is no HTTP/1.1: {error}")));
    }
    let slow =
        || Problem::new(StatusCode::REQUEST_TIMEOUT, "slow_head", "the request's head did not come in time");
    error.is_timeout().then(slow)
}
