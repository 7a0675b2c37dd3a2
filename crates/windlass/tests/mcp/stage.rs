//! A fixture server on loopback that responds as a test defines, in either revision, and records its requests.
//!
//! It speaks HTTP/1.1 with one request per connection, so that a test can break a stream at any point.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};

/// A received request.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: Value,
}

impl Asked {
    /// The JSON-RPC method.
    pub fn rpc(&self) -> &str {
        self.body.get("method").and_then(Value::as_str).unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub fn params(&self) -> &Value {
        &self.body["params"]
    }

    /// The response to the request.
    pub fn result(&self, result: Value) -> Said {
        Said::Json(200, json!({ "jsonrpc": "2.0", "id": self.body["id"], "result": result }))
    }

    pub fn error(&self, code: i32, message: &str) -> Said {
        let error = json!({ "code": code, "message": message });
        Said::Json(200, json!({ "jsonrpc": "2.0", "id": self.body["id"], "error": error }))
    }

    /// A text result as an event.
    pub fn event(&self, text: &str) -> Step {
        Step::Event(json!({ "jsonrpc": "2.0", "id": self.body["id"], "result": text_result(text) }))
    }

    pub fn text(&self, text: &str) -> Said {
        self.result(text_result(text))
    }
}

/// A text result.
pub fn text_result(text: &str) -> Value {
    json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] })
}

/// A response.
#[derive(Clone)]
pub enum Said {
    /// A status and a body.
    Json(u16, Value),
    /// The same with further headers.
    With(u16, Vec<(&'static str, String)>, Value),
    /// A stream of events.
    Stream(Vec<Step>),
    /// A status only.
    Status(u16),
}

/// A part of a stream.
#[derive(Clone)]
pub enum Step {
    /// A message.
    Event(Value),
    /// An event with a name.
    Named(&'static str, String),
    /// Messages that a test sends while the stream is open, one after another.
    Follow(watch::Receiver<Vec<Value>>),
    /// Waits for a notification.
    Until(Arc<Notify>),
    /// Breaks off in the middle.
    Break,
}

type Script = dyn Fn(&Asked) -> Said + Send + Sync;

/// A running server.
pub struct Stage {
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    count: watch::Sender<usize>,
    script: Arc<Mutex<Arc<Script>>>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Stage {
    pub async fn start(script: impl Fn(&Asked) -> Said + Send + Sync + 'static) -> Self {
        Self::start_on("127.0.0.1:0", script).await
    }

    pub async fn start_on(address: &str, script: impl Fn(&Asked) -> Said + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let script: Arc<Mutex<Arc<Script>>> = Arc::new(Mutex::new(Arc::new(script)));
        let count = watch::Sender::new(0);
        let (all, current, counted) = (asked.clone(), script.clone(), count.clone());
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (all, current, counted) = (all.clone(), current.clone(), counted.clone());
                tokio::spawn(async move {
                    let (read, mut write) = stream.into_split();
                    let Some(asked) = request(read).await else { return };
                    all.lock().unwrap().push(asked.clone());
                    let script = current.lock().unwrap().clone();
                    counted.send_modify(|count| *count += 1);
                    let said = script(&asked);
                    // Some tests disconnect on purpose.
                    let _ = answer(&mut write, said).await;
                });
            }
        });
        Self { url, asked, count, script, accepting }
    }

    /// Replaces the script of the server.
    pub fn says(&self, script: impl Fn(&Asked) -> Said + Send + Sync + 'static) {
        *self.script.lock().unwrap() = Arc::new(script);
    }

    /// All requests with this JSON-RPC method.
    pub fn asked(&self, rpc: &str) -> Vec<Asked> {
        self.asked.lock().unwrap().iter().filter(|asked| asked.rpc() == rpc).cloned().collect()
    }

    pub fn everything(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Waits until there were this many requests with this method.
    pub async fn until(&self, rpc: &str, times: usize) {
        let mut count = self.count.subscribe();
        let enough = async {
            while self.asked(rpc).len() < times {
                count.changed().await.unwrap();
            }
        };
        let waited = tokio::time::timeout(std::time::Duration::from_secs(20), enough).await;
        waited.unwrap_or_else(|_| panic!("{rpc} was not asked {times} times: {:?}", self.everything()));
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn request(read: tokio::net::tcp::OwnedReadHalf) -> Option<Asked> {
    let mut read = BufReader::new(read);
    let mut line = String::new();
    read.read_line(&mut line).await.ok()?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        read.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    read.read_exact(&mut body).await.ok()?;
    let body = serde_json::from_slice(&body)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).into_owned()));
    Some(Asked { method, path, headers, body })
}

async fn answer(to: &mut tokio::net::tcp::OwnedWriteHalf, said: Said) -> std::io::Result<()> {
    let (status, headers, body) = match said {
        Said::Json(status, body) => (status, Vec::new(), Some(body)),
        Said::With(status, headers, body) => (status, headers, Some(body)),
        Said::Status(status) => (status, Vec::new(), None),
        Said::Stream(steps) => return stream(to, steps).await,
    };
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    let mut head =
        format!("HTTP/1.1 {status} Said\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    if !body.is_empty() && headers.iter().all(|(name, _)| *name != "content-type") {
        head.push_str("content-type: application/json\r\n");
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    to.write_all(format!("{head}\r\n{body}").as_bytes()).await?;
    to.shutdown().await
}

async fn stream(to: &mut tokio::net::tcp::OwnedWriteHalf, steps: Vec<Step>) -> std::io::Result<()> {
    let head = "HTTP/1.1 200 Said\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\
                transfer-encoding: chunked\r\n\r\n";
    to.write_all(head.as_bytes()).await?;
    for step in steps {
        match step {
            Step::Event(message) => chunk(to, &format!("data: {message}\n\n")).await?,
            Step::Named(name, data) => chunk(to, &format!("event: {name}\ndata: {data}\n\n")).await?,
            Step::Until(until) => until.notified().await,
            Step::Break => return Ok(()),
            Step::Follow(mut messages) => {
                let mut sent = 0;
                loop {
                    let new = messages.borrow_and_update()[sent..].to_vec();
                    for message in new {
                        chunk(to, &format!("data: {message}\n\n")).await?;
                        sent += 1;
                    }
                    if messages.changed().await.is_err() {
                        break;
                    }
                }
            }
        }
    }
    to.write_all(b"0\r\n\r\n").await?;
    to.shutdown().await
}

async fn chunk(to: &mut tokio::net::tcp::OwnedWriteHalf, text: &str) -> std::io::Result<()> {
    to.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await?;
    to.flush().await
}

/// Whether a listener exists at the address.
pub async fn listens(url: &str) -> bool {
    let address = url.trim_start_matches("http://").trim_end_matches("/mcp");
    TcpStream::connect(address).await.is_ok()
}

/// The introductory responses of a newer server and its tools; `None` for requests that the test answers.
pub fn modern(asked: &Asked, tools: &Value) -> Option<Said> {
    match asked.rpc() {
        "server/discover" => Some(asked.result(json!({
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": { "tools": {}, "resources": {}, "prompts": {} },
            "instructions": "be kind",
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "stage", "version": "1" } },
        }))),
        "tools/list" => Some(asked.result(json!({
            "resultType": "complete", "tools": tools, "ttlMs": 3_600_000, "cacheScope": "private",
        }))),
        _ => None,
    }
}

/// The introductory responses of an older server and its tools; `None` for requests that the test answers.
pub fn legacy(asked: &Asked, tools: &Value) -> Option<Said> {
    match (asked.method.as_str(), asked.rpc()) {
        ("DELETE", _) => Some(Said::Status(200)),
        (_, "server/discover") => Some(asked.error(-32601, "Method not found")),
        (_, "initialize") => {
            let result = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": { "listChanged": true } },
                "serverInfo": { "name": "old stage", "version": "1" },
            });
            let body = json!({ "jsonrpc": "2.0", "id": asked.body["id"], "result": result });
            Some(Said::With(200, vec![("mcp-session-id", "s1".to_owned())], body))
        }
        (_, "notifications/initialized") => Some(Said::Status(202)),
        (_, "tools/list") => Some(asked.result(json!({ "tools": tools }))),
        ("GET", _) => Some(Said::Status(405)),
        _ => None,
    }
}

/// A tool that takes a text.
pub fn tool(name: &str, annotations: Value) -> Value {
    json!({
        "name": name,
        "description": format!("does {name}"),
        "inputSchema": { "type": "object", "properties": { "text": { "type": "string" } } },
        "annotations": annotations,
    })
}
