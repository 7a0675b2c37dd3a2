//! A model provider that replays difficult cases of the real wire formats over plain TCP, and keeps every request.
//!
//! The first segment of a request's path names the scenario ([`scenario`]). Suffixes change the transport.
//! `@clean` closes the connection after the last frame, and `@reset` resets it in the middle of the body.
//! `-307`, `-429`, `-529`, `-502html` and `-html200` send a status or page. `-noheaders` never responds, and
//! `-headers` sends endless headers. `-plain` sends plain text, and `-stall` stops in the middle.

mod anthropic;
mod bedrock;
mod chat;
mod gemini;
mod responses;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use windlass_engine::port::model::{Delta, ModelError, Reply};
use windlass_machine::Origin;

use crate::chat::{ChatDecoder, Dialect};
use crate::config::WireKind;
use crate::generate::GenerateDecoder;
use crate::messages::MessagesDecoder;
use crate::responses::ResponsesDecoder;
use crate::stream::decoder::Decoder;
use crate::stream::sse::{EventReader, Flow};

/// A received request.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedRequest {
    /// The scenario with its suffixes.
    pub scenario: String,
    /// The path after the scenario, including the query.
    pub path: String,
    /// Header names in lower case, in order.
    pub headers: Vec<(String, String)>,
    /// The body; `Null` if it is not JSON.
    pub body: Value,
    /// The body's bytes as text.
    pub text: String,
}

impl LoggedRequest {
    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A running provider. Dropping it stops the server.
pub struct ProviderServer {
    address: SocketAddr,
    log: Arc<Mutex<Vec<LoggedRequest>>>,
    gone: watch::Receiver<usize>,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

struct Shared {
    log: Arc<Mutex<Vec<LoggedRequest>>>,
    gone: watch::Sender<usize>,
}

impl ProviderServer {
    /// Starts a provider on a free port of the loopback address.
    pub async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let log = Arc::<Mutex<Vec<LoggedRequest>>>::default();
        let (gone_sender, gone) = watch::channel(0);
        let shared = Arc::new(Shared { log: Arc::clone(&log), gone: gone_sender });
        let connections = Arc::<AtomicUsize>::default();
        let accepted = Arc::clone(&connections);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::Relaxed);
                let shared = Arc::clone(&shared);
                // Errors of a connection are ignored: many scenarios break the connection.
                tokio::spawn(async move { serve(stream, &shared).await.ok() });
            }
        });
        Ok(Self { address, log, gone, connections, task })
    }

    /// Returns the URL of a scenario, to which a wire appends its path.
    pub fn url(&self, scenario: &str) -> String {
        format!("http://{}/{scenario}", self.address)
    }

    /// Returns every request received so far.
    pub fn requests(&self) -> Vec<LoggedRequest> {
        // A panic cannot leave the list invalid: the code only appends to the list and clones it.
        self.log.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// Returns the number of connections opened so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Waits until `count` clients have disconnected in the middle of a response.
    pub async fn disconnected(&self, count: usize) {
        let mut gone = self.gone.clone();
        // The sender lives as long as the accept task, which ends with `self`.
        gone.wait_for(|seen| *seen >= count).await.ok();
    }
}

impl Drop for ProviderServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the frames of a scenario; `None` if the scenario does not exist.
pub fn scenario(name: &str) -> Option<Vec<String>> {
    anthropic::frames(name)
        .or_else(|| chat::frames(name))
        .or_else(|| responses::frames(name))
        .or_else(|| gemini::frames(name))
}

/// Decodes a chat reply whose body arrives in these chunks. Returns the deltas and the outcome.
pub(crate) fn read_chat_reply<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let origin = Arc::new(Origin { api: WireKind::OpenaiChat.api().to_owned(), model: "p/m".into() });
    read_reply(ChatDecoder::new(Dialect::of("", true), origin), pieces)
}

/// Decodes a messages reply whose body arrives in these chunks. Returns the deltas and the outcome.
pub(crate) fn read_messages_reply<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let origin = Arc::new(Origin { api: WireKind::Anthropic.api().to_owned(), model: "p/m".into() });
    read_reply(MessagesDecoder::new(origin, true), pieces)
}

/// Decodes a Gemini reply whose body arrives in these chunks. Returns the deltas and the outcome.
pub(crate) fn read_generate_reply<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let origin = Arc::new(Origin { api: WireKind::Gemini.api().to_owned(), model: "p/m".into() });
    read_reply(GenerateDecoder::new(origin, true), pieces)
}

/// Decodes a responses reply whose body arrives in these chunks. Returns the deltas and the outcome.
pub(crate) fn read_responses_reply<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let origin = Arc::new(Origin { api: WireKind::OpenaiResponses.api().to_owned(), model: "p/m".into() });
    read_reply(ResponsesDecoder::new(origin, true), pieces)
}

/// The deltas and the outcome that a decoder returned.
type Outcome = (Vec<Delta>, Result<Reply, ModelError>);

fn read_reply<'a>(mut decoder: impl Decoder, pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let mut reader = EventReader::default();
    let mut deltas = VecDeque::new();
    let mut outcome = None;
    for piece in pieces {
        match reader.read(piece, &mut |name, data| decoder.event(name, data, &mut deltas)) {
            Ok(Flow::More) => {}
            Ok(Flow::End) => break,
            Err(error) => {
                outcome = Some(Err(error));
                break;
            }
        }
    }
    (deltas.into(), outcome.unwrap_or_else(|| decoder.finish()))
}

/// Decodes a responses reply, whole and split into two chunks, for fuzzing. A panic is a finding.
pub fn responses_reply(bytes: &[u8]) {
    assert_eq!(read_responses_reply([bytes]), read_responses_reply(halves(bytes)), "pieces do not matter");
}

/// Decodes a Gemini reply, whole and split into two chunks, for fuzzing. A panic is a finding.
pub fn generate_reply(bytes: &[u8]) {
    assert_eq!(read_generate_reply([bytes]), read_generate_reply(halves(bytes)), "pieces do not matter");
}

/// Decodes a messages reply, whole and split into two chunks, for fuzzing. A panic is a finding.
pub fn messages_reply(bytes: &[u8]) {
    assert_eq!(read_messages_reply([bytes]), read_messages_reply(halves(bytes)), "pieces do not matter");
}

/// Decodes a chat reply, whole and split into two chunks, for fuzzing. A panic is a finding.
pub fn chat_reply(bytes: &[u8]) {
    assert_eq!(read_chat_reply([bytes]), read_chat_reply(halves(bytes)), "pieces do not matter");
}

/// Splits bytes at a position that the first byte determines.
fn halves(bytes: &[u8]) -> [&[u8]; 2] {
    let (first, second) = bytes.split_at(bytes.first().map_or(0, |first| usize::from(*first) % bytes.len()));
    [first, second]
}

/// Encodes one server-sent event without a name.
fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

/// Encodes one server-sent event, named after its type.
fn named(value: &Value) -> String {
    let name = value.get("type").and_then(Value::as_str).unwrap_or_default();
    format!("event: {name}\ndata: {value}\n\n")
}

async fn serve(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some(request) = read_request(&mut stream).await? {
        let name = request.scenario.clone();
        shared.log.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(request);
        if !answer(&mut stream, &name, shared).await? {
            return stream.shutdown().await;
        }
    }
    Ok(())
}

async fn read_request(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<LoggedRequest>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return Ok(None),
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut lines = head.lines();
    let target = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or("/").to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let text = String::from_utf8_lossy(&body).into_owned();
    let (scenario, path) = target.trim_start_matches('/').split_once('/').unwrap_or((&target, ""));
    Ok(Some(LoggedRequest {
        scenario: scenario.to_owned(),
        path: format!("/{path}"),
        headers,
        body: serde_json::from_str(&text).unwrap_or(Value::Null),
        text,
    }))
}

/// Responds to a request. Returns `false` if the server closes the connection after this response.
async fn answer(stream: &mut BufReader<TcpStream>, name: &str, shared: &Shared) -> std::io::Result<bool> {
    if let Some((status, headers, body)) = whole_answer(name) {
        let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(head.as_bytes()).await?;
        return Ok(true);
    }
    if name.ends_with("-noheaders") {
        wait_for_leave(stream, shared).await;
        return Ok(false);
    }
    if name.ends_with("-headers") {
        stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
        // Sends headers until the client disconnects.
        while stream.write_all(b"x-more: and more\r\n").await.is_ok() {}
        return Ok(false);
    }
    let stalls = name.ends_with("-stall");
    let (plain, carried) = name.split_once('@').unwrap_or((name, ""));
    let (content_type, frames) = frames(plain, stalls);
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\nrequest-id: req_ok\r\nx-request-id: req_ok\r\n"
    );
    if carried == "clean" {
        stream.write_all(format!("{head}connection: close\r\n\r\n").as_bytes()).await?;
        stream.write_all(&frames.concat()).await?;
        return Ok(false);
    }
    stream.write_all(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes()).await?;
    for frame in frames {
        let chunk = [format!("{:x}\r\n", frame.len()).as_bytes(), &frame, b"\r\n"].concat();
        stream.write_all(&chunk).await?;
        stream.flush().await?;
    }
    if stalls {
        wait_for_leave(stream, shared).await;
    }
    if stalls || carried == "reset" {
        return Ok(false);
    }
    stream.write_all(b"0\r\n\r\n").await?;
    Ok(true)
}

/// Returns the content type and the frames of a scenario's body.
fn frames(name: &str, stalls: bool) -> (&'static str, Vec<Vec<u8>>) {
    if name.starts_with("br-") {
        let frames = if stalls { Some(bedrock::beginning()) } else { bedrock::frames(name) };
        return (bedrock::CONTENT_TYPE, frames.unwrap_or_default());
    }
    let scenario = || scenario(name.trim_end_matches("-plain")).unwrap_or_default();
    let frames = if stalls { anthropic::beginning() } else { scenario() };
    let content_type = if name.ends_with("-plain") { "text/plain" } else { "text/event-stream" };
    (content_type, frames.into_iter().map(String::into_bytes).collect())
}

/// Returns once the client has closed its side of the connection.
async fn wait_for_leave(stream: &mut BufReader<TcpStream>, shared: &Shared) {
    let mut rest = [0; 64];
    while matches!(stream.read(&mut rest).await, Ok(count) if count > 0) {}
    shared.gone.send_modify(|gone| *gone += 1);
}

/// Returns status, headers and body of a scenario that is not a stream.
fn whole_answer(name: &str) -> Option<(&'static str, &'static str, String)> {
    const JSON: &str = "content-type: application/json\r\nrequest-id: req_1\r\n";
    const LATER: &str = "content-type: application/json\r\nrequest-id: req_1\r\nretry-after: 7\r\n\
        x-ratelimit-remaining-requests: 0\r\n";
    const MOVED: &str = "location: http://elsewhere.invalid/login?from=here\r\n";
    const HTML: &str = "content-type: text/html\r\n";
    let anthropic = name.starts_with("anth");
    let bedrock = name.starts_with("br-");
    let error = |anthropic_type: &str, openai_code: &str, message: &str| {
        if bedrock {
            serde_json::json!({"message": message})
        } else if anthropic {
            serde_json::json!({"type": "error", "error": {"type": anthropic_type, "message": message}})
        } else {
            serde_json::json!({"error": {"message": message, "type": "requests", "code": openai_code}})
        }
        .to_string()
    };
    let ends = |suffix: &str| name.ends_with(suffix);
    if bedrock && ends("-toolong") {
        let body = r#"{"__type":"ValidationException","message":"Input is too long for requested model."}"#;
        Some(("400 Bad Request", JSON, body.to_owned()))
    } else if bedrock && ends("-403") {
        let body = r#"{"__type":"AccessDeniedException","message":"You have no access to the model."}"#;
        Some(("403 Forbidden", JSON, body.to_owned()))
    } else if ends("-429") {
        Some(("429 Too Many Requests", LATER, error("rate_limit_error", "rate_limit_exceeded", "Too many")))
    } else if ends("-529") {
        Some(("529 Overloaded", JSON, error("overloaded_error", "overloaded", "Overloaded")))
    } else if ends("-401") {
        Some((
            "401 Unauthorized",
            JSON,
            error("authentication_error", "invalid_api_key", "invalid x-api-key"),
        ))
    } else if ends("-413") {
        Some((
            "413 Payload Too Large",
            JSON,
            error("request_too_large", "context_length_exceeded", "too long"),
        ))
    } else if ends("-400") {
        Some(("400 Bad Request", JSON, error("invalid_request_error", "invalid_value", "bad field")))
    } else if ends("-500") {
        Some(("500 Internal Server Error", JSON, error("api_error", "server_error", "Internal")))
    } else if ends("-307") {
        Some(("307 Temporary Redirect", MOVED, String::new()))
    } else if ends("-502html") {
        Some(("502 Bad Gateway", HTML, "<html>bad gateway</html>".to_owned()))
    } else if ends("-html200") {
        Some(("200 OK", HTML, "<html>login</html>".to_owned()))
    } else if ends("-json200") {
        Some(("200 OK", JSON, error("overloaded_error", "rate_limit_exceeded", "in a success")))
    } else {
        None
    }
}
