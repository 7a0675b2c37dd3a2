//! A client with one connection: starts a run and reads its server-sent events with minimal parsing.

use std::borrow::Cow;

use anyhow::{Context, Result, bail};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::json;
use tokio::net::TcpStream;

use crate::machine;

/// The server's address and the credentials.
pub(crate) struct Client {
    address: String,
    authorization: String,
}

/// One persistent connection.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    authorization: String,
}

/// The response to the start of a run.
#[derive(Deserialize)]
pub(crate) struct Started {
    pub(crate) run: String,
    pub(crate) thread: String,
}

/// The content and the times of a stream.
#[derive(Default)]
pub(crate) struct Told {
    /// The concatenated fragments; a snapshot replaces those before it.
    pub(crate) text: String,
    /// The run's final output.
    pub(crate) answer: String,
    /// Time until the head of the response, in milliseconds.
    pub(crate) head_ms: f64,
    /// Time until the first fragment, in milliseconds.
    pub(crate) first_ms: f64,
}

#[derive(Deserialize)]
struct Fragment<'a> {
    #[serde(borrow, default)]
    text: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Ended {
    outcome: Outcome,
}

#[derive(Deserialize)]
struct Outcome {
    status: String,
    data: Option<String>,
}

impl Client {
    pub(crate) fn new(address: String, key: String) -> Self {
        Self { address, authorization: format!("Bearer {key}") }
    }

    pub(crate) async fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect(&self.address).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let (host, authorization) = (self.address.clone(), self.authorization.clone());
        Ok(Connection { sender, host, authorization })
    }
}

impl Connection {
    /// Starts a run in a new thread.
    pub(crate) async fn start(&mut self, model: &str) -> Result<Started> {
        let body = json!({"message": "Go on until you are done.", "model": model}).to_string();
        let response = self.send(Method::POST, "/api/v1/runs", body).await?;
        Ok(serde_json::from_slice(&response.into_body().collect().await?.to_bytes())?)
    }

    /// Reads a response and discards it.
    pub(crate) async fn get(&mut self, path: &str) -> Result<()> {
        self.send(Method::GET, path, String::new()).await?.into_body().collect().await?;
        Ok(())
    }

    /// Reads a run's stream to its end.
    pub(crate) async fn read(&mut self, run: &str, started: u64) -> Result<Told> {
        let response = self.send(Method::GET, &format!("/api/v1/runs/{run}/stream"), String::new()).await?;
        let mut told = Told { head_ms: ms_since(started), ..Told::default() };
        let (mut body, mut unread) = (response.into_body(), BytesMut::new());
        let mut is_over = false;
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            unread.extend_from_slice(&data);
            let mut start = 0;
            while let Some(length) = unread[start..].windows(2).position(|pair| pair == b"\n\n") {
                is_over |= told.take(&unread[start..start + length], started)?;
                start += length + 2;
            }
            let _ = unread.split_to(start);
        }
        if !is_over {
            bail!("the stream of `{run}` ended before the run");
        }
        Ok(told)
    }

    async fn send(&mut self, method: Method, path: &str, body: String) -> Result<Response<Incoming>> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.host)
            .header(AUTHORIZATION, &self.authorization)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        bail!("`{path}` was answered with {status}: {}", String::from_utf8_lossy(&body));
    }
}

impl Told {
    /// Handles one event. Returns whether it is the last event.
    fn take(&mut self, event: &[u8], started: u64) -> Result<bool> {
        let (mut kind, mut data) = (&b""[..], &b""[..]);
        for line in event.split(|byte| *byte == b'\n') {
            if let Some(value) = line.strip_prefix(b"event: ") {
                kind = value;
            } else if let Some(value) = line.strip_prefix(b"data: ") {
                data = value;
            }
        }
        match kind {
            b"message.delta" => {
                if self.first_ms == 0.0 {
                    self.first_ms = ms_since(started);
                }
                self.text.push_str(&serde_json::from_slice::<Fragment<'_>>(data)?.text);
            }
            b"message.snapshot" => {
                if self.first_ms == 0.0 {
                    self.first_ms = ms_since(started);
                }
                self.text = snapshot(data)?;
            }
            // The fragments of a failed attempt are void.
            b"step.failed" => self.text.clear(),
            // The event contains the whole reply, and corrects a client that is behind.
            b"step.replied" => {
                let whole = replied(data)?;
                if !whole.starts_with(&self.text) {
                    bail!("the fragments of {} bytes are not a prefix of the reply", self.text.len());
                }
                if self.first_ms == 0.0 {
                    self.first_ms = ms_since(started);
                }
                self.text = whole;
            }
            b"outcome" => {
                let outcome = serde_json::from_slice::<Ended>(data)?.outcome;
                if outcome.status != "done" {
                    bail!("the run ended as {}", outcome.status);
                }
                self.answer = outcome.data.unwrap_or_default();
                return Ok(true);
            }
            _ => {}
        }
        Ok(false)
    }
}

fn replied(data: &[u8]) -> Result<String> {
    #[derive(Deserialize)]
    struct Replied<'a> {
        #[serde(borrow)]
        message: Message<'a>,
    }
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        blocks: Vec<Fragment<'a>>,
    }
    let replied: Replied<'_> = serde_json::from_slice(data)?;
    Ok(replied.message.blocks.into_iter().map(|block| block.text).collect())
}

fn snapshot(data: &[u8]) -> Result<String> {
    #[derive(Deserialize)]
    struct Snapshot<'a> {
        #[serde(borrow)]
        parts: Vec<Fragment<'a>>,
    }
    let snapshot: Snapshot<'_> = serde_json::from_slice(data)?;
    Ok(snapshot.parts.into_iter().map(|part| part.text).collect())
}

/// Returns the milliseconds since a time of the monotonic clock.
fn ms_since(start_ns: u64) -> f64 {
    (machine::monotonic_ns() - start_ns) as f64 / 1e6
}
