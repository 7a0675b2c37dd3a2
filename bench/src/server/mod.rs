//! A local model server that plays scripts: it implements the providers' wire formats with streaming, and keeps no
//! state.
//!
//! The model's name is the script (see the README of this package). The server checks no key, has no prices
//! and never fails; tests of failures need another server. It uses less CPU than the measured client: a
//! stream is a position in prebuilt frames.

pub mod script;
mod stats;
mod stream;
#[cfg(test)]
mod tests;
mod wire;

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;
use tokio::time::sleep;

pub use self::stats::Stats;

use self::script::{Reply, Script};
use self::stream::EventBody;
use self::wire::{Form, Texts, Wire};

/// Maximum number of connections that wait to be accepted: several times as many as a benchmark opens at once.
const BACKLOG: u32 = 8192;

type Answer = Response<Either<Full<Bytes>, EventBody>>;

/// A model server that runs until it is dropped.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    stats: Arc<Stats>,
    accepting: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Shared {
    stats: Arc<Stats>,
    texts: Texts,
}

impl ModelServer {
    /// Listens on this port of the loopback interface; 0 selects a free one.
    ///
    /// # Errors
    /// If the port is not available.
    pub async fn start(port: u16) -> io::Result<ModelServer> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let stats = shared.stats.clone();
        Ok(ModelServer { address, stats, accepting: tokio::spawn(accept(listener, shared)) })
    }

    /// Returns the address at which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the server's URL without `/v1`, the form that Anthropic's clients use.
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the server's URL with `/v1`, the form that OpenAI's clients use.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns the server's counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        // Accepting fails for a connection that is already closed, or if the process has no free file
        // descriptors. The next attempt may succeed.
        let Ok((connection, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        // Without this option, a token could wait for the next one. If setting it fails, the connection is only slower.
        let _ = connection.set_nodelay(true);
        let shared = shared.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(shared.clone(), request));
            // A client that disconnects ends its connection with an error, which is ignored.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(connection), service).await;
        });
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Answer, Infallible> {
    let path = request.uri().path();
    let wire = Wire::at(path).filter(|_| request.method() == Method::POST);
    let answer = match (wire, path) {
        (Some(wire), _) => {
            shared.stats.request_came();
            return Ok(play(shared, wire, request).await);
        }
        (None, "/stats") => document(StatusCode::OK, &shared.stats.to_json()),
        (None, "/first") => document(StatusCode::OK, &shared.stats.first_json()),
        (None, "/reset") if request.method() == Method::POST => {
            shared.stats.reset();
            document(StatusCode::OK, &json!({}))
        }
        (None, "/v1/models") => document(StatusCode::OK, &json!({"object": "list", "data": []})),
        (None, path) => refuse(StatusCode::NOT_FOUND, &format!("nothing is served at `{path}`")),
    };
    Ok(answer)
}

async fn play(shared: Arc<Shared>, wire: Wire, request: Request<Incoming>) -> Answer {
    let body = match request.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return refuse(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    shared.stats.body_came(body.len());
    let ask = match wire.read(&body) {
        Ok(ask) => ask,
        Err(error) => {
            shared.stats.refused();
            return refuse(StatusCode::BAD_REQUEST, &error.to_string());
        }
    };
    let script = Script::parse(&ask.model);
    let reply = script.reply(&ask);
    let form = Form { model: &ask.model, input_tokens: body.len() / 4, wants_usage: ask.wants_usage };
    if ask.is_streamed {
        let frames = wire.frames(&form, &reply, &shared.texts);
        return events(EventBody::new(frames, &script, shared.stats.clone()));
    }
    let value = wire.document(&form, &reply);
    let tokens = match &reply {
        Reply::Text(text) => text.tokens as u32,
        Reply::Calls(_) => 1,
    };
    let wait = script.first_delay + script.token_delay * tokens;
    if !wait.is_zero() {
        sleep(wait).await;
    }
    document(StatusCode::OK, &value)
}

fn events(body: EventBody) -> Answer {
    let mut answer = Response::new(Either::Right(body));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(CACHE_CONTROL, hyper::header::HeaderValue::from_static("no-cache"));
    answer
}

fn document(status: StatusCode, value: &Value) -> Answer {
    let mut answer = Response::new(Either::Left(Full::new(Bytes::from(value.to_string()))));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
    answer
}

/// Returns an error in a form that clients of every wire understand.
fn refuse(status: StatusCode, message: &str) -> Answer {
    let error = json!({"type": "invalid_request_error", "message": message});
    document(status, &json!({"type": "error", "error": error}))
}
