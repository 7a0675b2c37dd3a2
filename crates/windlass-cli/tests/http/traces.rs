//! Traces as received by a collector: protobuf over HTTP, decoded field by field.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use reqwest::{Method, StatusCode};

use super::answer;
use super::operate::until;
use super::raw::logged;
use crate::cli::{TASK, User};

/// A collector that keeps the received requests.
struct Collector {
    address: String,
    bodies: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// The tested fields of a span.
#[derive(Debug, Default)]
struct Span {
    name: String,
    trace: String,
    parent: String,
    links: usize,
    attributes: Vec<(String, String)>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let bodies: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let kept = bodies.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let kept = kept.clone();
                std::thread::spawn(move || keep(stream.unwrap(), &kept));
            }
        });
        Self { address, bodies }
    }

    fn spans(&self) -> Vec<Span> {
        let bodies = self.bodies.lock().unwrap();
        // ExportTraceServiceRequest.resource_spans, .scope_spans, .spans
        let resources = bodies.iter().flat_map(|body| parts(body, 1));
        let scopes = resources.flat_map(|resource| parts(resource, 2));
        scopes.flat_map(|scope| parts(scope, 2)).map(span).collect()
    }
}

/// Responds to requests on a connection, and keeps their bodies.
fn keep(mut stream: TcpStream, kept: &Mutex<Vec<Vec<u8>>>) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 65536]);
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..read]);
        let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        assert!(head.starts_with("post /v1/traces "), "{head}");
        assert!(head.contains("content-type: application/x-protobuf"), "{head}");
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        let whole = end + 4 + length.unwrap();
        if bytes.len() >= whole {
            kept.lock().unwrap().push(bytes[end + 4..whole].to_vec());
            bytes.drain(..whole);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
        }
    }
}

/// The values of a message's length-delimited fields with this number.
fn parts(message: &[u8], wanted: u64) -> Vec<&[u8]> {
    let (mut rest, mut found) = (message, Vec::new());
    while !rest.is_empty() {
        let key = number(&mut rest);
        match key & 7 {
            0 => drop(number(&mut rest)),
            1 => rest = &rest[8..],
            5 => rest = &rest[4..],
            2 => {
                let length = usize::try_from(number(&mut rest)).unwrap();
                if key >> 3 == wanted {
                    found.push(&rest[..length]);
                }
                rest = &rest[length..];
            }
            other => panic!("no such wire type: {other}"),
        }
    }
    found
}

fn number(rest: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = rest[0];
        *rest = &rest[1..];
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return value;
        }
    }
}

fn span(message: &[u8]) -> Span {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let first = |field| parts(message, field).first().map(|bytes| bytes.to_vec()).unwrap_or_default();
    let hex = |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let attributes = parts(message, 9).into_iter().map(|pair| {
        let value = parts(pair, 2)[0];
        (text(parts(pair, 1)[0]), parts(value, 1).first().map(|bytes| text(bytes)).unwrap_or_default())
    });
    Span {
        name: text(&first(5)),
        trace: hex(first(1)),
        parent: hex(first(4)),
        links: parts(message, 13).len(),
        attributes: attributes.collect(),
    }
}

impl Span {
    fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

#[test]
fn a_run_is_a_trace_in_the_words_of_the_conventions() {
    let (collector, user) = (Collector::start(), User::new());
    let mut run = user.command(&["run", "--yes", TASK]);
    run.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.address);
    crate::cli::said(run.output().unwrap()).exits(0);
    let spans = collector.spans();
    let names = |name: &str| spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();
    let [agent] = names("invoke_agent")[..] else { panic!("{spans:#?}") };
    assert_eq!((names("chat").len(), names("execute_tool").len()), (4, 3), "{spans:#?}");
    assert!(spans.iter().all(|span| span.trace == agent.trace), "{spans:#?}");
    for chat in names("chat") {
        assert_eq!(chat.attribute("gen_ai.operation.name"), Some("chat"));
        assert_eq!(chat.attribute("gen_ai.request.model"), Some("demo/script"), "{chat:#?}");
        assert!(chat.attribute("gen_ai.usage.output_tokens").is_some(), "{chat:#?}");
    }
    assert!(agent.attribute("gen_ai.conversation.id").is_some_and(|id| id.starts_with("thr_")), "{agent:#?}");
    assert!(names("execute_tool").iter().all(|span| span.attribute("gen_ai.tool.name").is_some()));
    let all = format!("{spans:?}");
    assert!(!all.contains("insights"), "no text is exported: {spans:#?}");
}

/// No trace contains a secret that a run's tools received and echoed in any form.
// The test blocks on commands while the far server handles their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_in_a_trace() {
    let collector = Collector::start();
    let said =
        super::sentinel::run_with(&[("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address.as_str())]).await;
    said.exits(0);
    let spans = collector.spans();
    let tools = spans.iter().filter(|span| span.name == "execute_tool").count();
    assert!(tools >= 3, "{spans:#?}");
    for body in collector.bodies.lock().unwrap().iter() {
        super::sentinel::assert_none("a trace", body);
    }
}

#[test]
fn the_server_continues_a_clients_trace() {
    let collector = Collector::start();
    let server = logged(User::new(), &[], |command| {
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.address);
    });
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let request = server.request(Method::GET, "/api/v1/version");
        let request = request.header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"));
        answer(request).await.is(StatusCode::OK);
    });
    let _ended = server.end(libc::SIGTERM);
    until("the span has come", || !collector.spans().is_empty());
    let spans = collector.spans();
    let [request] = &spans[..] else { panic!("{spans:#?}") };
    assert_eq!(
        (request.trace.as_str(), request.parent.as_str()),
        (trace, "00f067aa0ba902b7"),
        "{request:#?}"
    );
    assert_eq!(request.attribute("http.route"), Some("/api/v1/version"));
    assert_eq!(request.links, 0);
}
