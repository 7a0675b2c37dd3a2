//! The transports: headers, POST only, HTTP+SSE. (LM-P1, LM-P2)

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::watch;
use windlass::mcp::{HeadersFor, HeadersProvider, Health, Http, HubConfig, McpHub, McpServer, Transport};

use super::stage::{Asked, Said, Stage, Step, legacy, modern, text_result, tool};
use super::{call, find, hub, shown};

fn tools() -> Value {
    json!([tool("once", json!({}))])
}

/// Provides another token each time, and counts the requests for headers.
#[derive(Default)]
struct Tokens {
    asked: AtomicU32,
    again: AtomicU32,
}

#[async_trait]
impl HeadersProvider for Tokens {
    async fn headers(&self, why: HeadersFor) -> Result<Vec<(String, String)>, String> {
        let count = self.asked.fetch_add(1, Ordering::SeqCst);
        if why == HeadersFor::Refused {
            self.again.fetch_add(1, Ordering::SeqCst);
        }
        Ok(vec![("x-token".into(), format!("t{count}"))])
    }
}

fn server(http: Http) -> McpServer {
    McpServer { trusted: true, ..McpServer::new("stage", Transport::Http(http)) }
}

// rows: LM-P2
#[tokio::test]
async fn headers_are_asked_for_before_each_request_and_once_more_after_a_401() {
    let refuse_next = Arc::new(AtomicU32::new(0));
    let refusing = refuse_next.clone();
    let stage = Stage::start(move |asked| {
        if asked.rpc() == "tools/call"
            && refusing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok()
        {
            return Said::Status(401);
        }
        modern(asked, &tools()).unwrap_or_else(|| asked.text("in"))
    })
    .await;
    let provider = Arc::new(Tokens::default());
    let headers = vec![("x-fixed".into(), "f".into()), ("x-token".into(), "of the settings".into())];
    let http = Http { headers, headers_provider: Some(provider.clone()), ..Http::new(&stage.url) };
    let hub = hub(server(http)).await;
    let once = find(&hub, "once");
    refuse_next.store(1, Ordering::SeqCst);
    assert_eq!(shown(&call(&once, json!({})).await), "ok: in", "the second try is let in");
    let calls = stage.asked("tools/call");
    assert_eq!((calls.len(), provider.again.load(Ordering::SeqCst)), (2, 1));
    let all: Vec<&str> = calls.iter().map(|asked| asked.header("x-token").unwrap()).collect();
    assert!(all[0] != all[1] && all.iter().all(|token| token.starts_with('t')), "{all:?}");
    assert!(stage.everything().iter().all(|asked| asked.header("x-fixed") == Some("f")));
    // After two refusals there is no third attempt; a person must check the credentials.
    refuse_next.store(10, Ordering::SeqCst);
    let said = shown(&call(&once, json!({})).await);
    assert!(said.contains("rejects the configured credentials. Nothing was done"), "{said}");
    assert_eq!(stage.asked("tools/call").len(), 4);
}

// rows: LM-P1
#[tokio::test]
async fn post_alone_keeps_no_session_and_opens_no_stream() {
    let script = |asked: &Asked| {
        legacy(asked, &tools()).unwrap_or_else(|| match asked.rpc() {
            // A server that answers with a stream is supported as well.
            "tools/call" => Said::Stream(vec![
                Step::Event(json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": "x" } })),
                asked.event("in"),
            ]),
            _ => Said::Status(202),
        })
    };
    let stage = Stage::start(script).await;
    let hub = hub(server(Http { post_only: true, ..Http::new(&stage.url) })).await;
    assert_eq!(shown(&call(&find(&hub, "once"), json!({})).await), "ok: in");
    hub.stop().await;
    let asked = stage.everything();
    assert!(
        asked.iter().all(|asked| asked.method == "POST" && asked.header("mcp-session-id").is_none()),
        "{asked:?}"
    );

    // Without that setting, the same server has a session and a stream.
    let stage = Stage::start(script).await;
    let hub = super::hub(server(Http::new(&stage.url))).await;
    assert_eq!(shown(&call(&find(&hub, "once"), json!({})).await), "ok: in");
    stage.until("", 1).await;
    hub.stop().await;
    let asked = stage.everything();
    assert!(asked.iter().any(|asked| asked.method == "GET" && asked.header("mcp-session-id") == Some("s1")));
    assert!(asked.iter().any(|asked| asked.method == "DELETE"), "the session is ended");
}

// rows: LM-P1
#[tokio::test]
async fn http_with_sse_of_2024_is_spoken() {
    let (say, heard) = watch::channel(Vec::<Value>::new());
    let script = move |asked: &Asked| {
        if asked.method == "GET" {
            let endpoint = Step::Named("endpoint", "/messages?session=7".into());
            return Said::Stream(vec![endpoint, Step::Follow(heard.clone())]);
        }
        assert_eq!(asked.path, "/messages?session=7");
        let result = match asked.rpc() {
            "initialize" => json!({ "protocolVersion": "2024-11-05", "capabilities": { "tools": {} },
                "serverInfo": { "name": "old", "version": "1" } }),
            "tools/list" => json!({ "tools": tools() }),
            "tools/call" => text_result("over two wires"),
            _ => return Said::Status(202),
        };
        let message = json!({ "jsonrpc": "2.0", "id": asked.body["id"], "result": result });
        say.send_modify(|said| said.push(message));
        Said::Status(202)
    };
    let stage = Stage::start(script).await;
    let headers = vec![("authorization".to_owned(), "Bearer secret".to_owned())];
    let transport = Transport::Sse(Http { headers, ..Http::new(&stage.url) });
    let hub = hub(McpServer { trusted: true, ..McpServer::new("stage", transport) }).await;
    assert_eq!(hub.server("stage").unwrap().protocol.as_deref(), Some("2024-11-05"));
    assert_eq!(shown(&call(&find(&hub, "once"), json!({})).await), "ok: over two wires");
    assert!(stage.everything().iter().all(|asked| asked.header("authorization") == Some("Bearer secret")));
    assert!(stage.asked("server/discover").is_empty(), "it would not know");
}

#[tokio::test]
async fn an_unreadable_event_of_http_with_sse_ends_its_call() {
    let (send, sent) = watch::channel(Vec::<Value>::new());
    let script = move |asked: &Asked| {
        if asked.method == "GET" {
            return Said::Stream(vec![
                Step::Named("endpoint", "/messages".into()),
                Step::Follow(sent.clone()),
            ]);
        }
        let result = match asked.rpc() {
            "initialize" => json!({ "protocolVersion": "2024-11-05", "capabilities": { "tools": {} },
                "serverInfo": { "name": "old", "version": "1" } }),
            "tools/list" => json!({ "tools": tools() }),
            "tools/call" => json!(null),
            _ => return Said::Status(202),
        };
        let message = match result {
            Value::Null if asked.params()["arguments"]["text"] == "nameless" => {
                json!({ "jsonrpc": "2.0", "result": {} })
            }
            Value::Null => json!({ "jsonrpc": "2.0", "id": asked.body["id"] }),
            result => json!({ "jsonrpc": "2.0", "id": asked.body["id"], "result": result }),
        };
        send.send_modify(|sent| sent.push(message));
        Said::Status(202)
    };
    let stage = Stage::start(script).await;
    let transport = Transport::Sse(Http::new(&stage.url));
    let hub = hub(McpServer { trusted: true, ..McpServer::new("stage", transport) }).await;
    let once = find(&hub, "once");
    let nameless = shown(&call(&once, json!({ "text": "nameless" })).await);
    assert!(nameless.starts_with("lost: ") && nameless.contains("without a readable id"), "{nameless}");
    let named = shown(&call(&once, json!({})).await);
    assert!(named.starts_with("error: ") && named.contains("neither a result nor an error"), "{named}");
    let log = hub.logs("stage").unwrap();
    let reported = log.iter().filter(|line| line.contains("cannot parse a response of the server")).count();
    assert_eq!(reported, 2, "{log:?}");
}

#[tokio::test]
async fn an_unreadable_event_of_streamable_http_ends_its_call() {
    let script = |asked: &Asked| {
        legacy(asked, &tools()).unwrap_or_else(|| {
            let id = &asked.body["id"];
            let event = match asked.params()["arguments"]["text"].as_str() {
                Some("nameless") => json!({ "jsonrpc": "2.0", "result": 7 }).to_string(),
                Some("neither") => json!({ "jsonrpc": "2.0", "id": id }).to_string(),
                Some("text") => json!({ "jsonrpc": "2.0", "id": id.to_string() }).to_string(),
                Some("large") => {
                    let text = "x".repeat(17 * 1024 * 1024);
                    json!({ "jsonrpc": "2.0", "id": id, "result": text_result(&text) }).to_string()
                }
                _ => format!(
                    "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{}1{}}}",
                    "[".repeat(5_000),
                    "]".repeat(5_000)
                ),
            };
            // The stream stays open, so only the event can end the call.
            Said::Stream(vec![Step::Named("message", event), Step::Until(Arc::default())])
        })
    };
    let stage = Stage::start(script).await;
    let hub = hub(server(Http::new(&stage.url))).await;
    let once = find(&hub, "once");
    for (text, why) in [
        ("nameless", "neither a result nor an error"),
        ("neither", "neither a result nor an error"),
        ("text", "neither a result nor an error"),
        ("large", "longer than 16777216 bytes"),
        ("deep", "nested too deeply"),
    ] {
        let said = shown(&call(&once, json!({ "text": text })).await);
        assert!(said.starts_with("error: ") && said.contains(why), "{text}: {said}");
    }
    let log = hub.logs("stage").unwrap();
    let reported = log.iter().filter(|line| line.contains("cannot parse a response of the server")).count();
    assert_eq!(reported, 5, "{log:?}");
}

#[tokio::test]
async fn an_older_server_is_asked_for_the_newer_revision_only_once() {
    let stage = Stage::start(|asked| legacy(asked, &tools()).unwrap_or_else(|| asked.text("in"))).await;
    let hub = hub(server(Http::new(&stage.url))).await;
    assert_eq!(hub.server("stage").unwrap().protocol.as_deref(), Some("2025-11-25"));
    hub.restart("stage").unwrap();
    hub.ready("stage").await.unwrap();
    assert_eq!((stage.asked("server/discover").len(), stage.asked("initialize").len()), (1, 2));
}

#[tokio::test]
async fn secrets_stay_out_of_what_people_read() {
    let stage = Stage::start(|_| Said::Json(401, json!({ "error": "no" }))).await;
    let headers = vec![("authorization".to_owned(), "Bearer SENTINEL".to_owned())];
    let server = server(Http { headers, ..Http::new(&stage.url) });
    let told = format!("{server:?}");
    let hub = McpHub::new(HubConfig::default());
    hub.start(vec![server]).await.unwrap();
    let error = hub.ready("stage").await.unwrap_err().to_string();
    let status = hub.server("stage").unwrap();
    assert!(matches!(status.health, Health::NeedsSignIn { .. }), "{status:?}");
    let all = format!("{told} {error} {status:?} {:?}", hub.logs("stage"));
    assert!(!all.contains("SENTINEL"), "{all}");
}
