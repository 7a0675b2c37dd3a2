//! Connections: accepted, bounded in time and number, and let finish when the server stops.
//!
//! HTTP/1.1 in clear; TLS and HTTP/2 are a proxy's.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::stream::stall::{Impatient, STALL};

/// How long a client may take to send a request's head.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// Connections at a time: each costs some KiB and a descriptor, of which systems give 1,024 to 1,048,576.
const CONNECTIONS: usize = 10_000;
/// How long requests in progress may take to end when the server stops.
const DRAIN: Duration = Duration::from_secs(10);
/// How long to wait where the system has no descriptor left.
const BREATHE: Duration = Duration::from_millis(100);

/// A bound listener.
pub struct Listening {
    /// Where it listens.
    pub address: SocketAddr,
    listener: TcpListener,
}

/// Binds an address.
pub async fn listen(address: SocketAddr) -> io::Result<Listening> {
    let listener = TcpListener::bind(address).await?;
    Ok(Listening { address: listener.local_addr()?, listener })
}

impl Listening {
    /// Serves until `stopping` is cancelled, then lets requests in progress finish for some seconds.
    pub async fn serve(self, router: Router, stopping: CancellationToken) {
        let mut make = router.into_make_service_with_connect_info::<SocketAddr>();
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        let drain = GracefulShutdown::new();
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN);
        loop {
            let accepted = tokio::select! {
                () = stopping.cancelled() => break,
                accepted = accept(&self.listener, &room) => accepted,
            };
            let Ok((stream, peer, permit)) = accepted else {
                tokio::time::sleep(BREATHE).await;
                continue;
            };
            // A small answer goes out at once. A socket that refuses this works all the same.
            let _ = stream.set_nodelay(true);
            let service: Result<_, Infallible> = make.call(peer).await;
            let Ok(service) = service;
            let service = TowerToHyperService::new(service);
            let connection =
                drain.watch(server.serve_connection(TokioIo::new(Impatient::new(stream, STALL)), service));
            tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%peer, %error, "a connection ended");
                }
                drop(permit);
            });
        }
        drop(self.listener);
        let _ = tokio::time::timeout(DRAIN, drain.shutdown()).await;
    }
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> io::Result<(tokio::net::TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    // The semaphore is never closed.
    let permit = room.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, permit))
}
