//! Calls: their results, calls that are never repeated, progress, and timeouts.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::Notify;
use windlass::mcp::{HeadersFor, HeadersProvider, Http, McpServer, Timeouts, Transport};
use windlass::port::tool::{CallContext, ProgressSender};

use super::stage::{Asked, Said, Stage, Step, legacy, modern, text_result, tool};
use super::{at, call, called, context, find, hub, hub_of, shown, trusted};

fn tools() -> Value {
    json!([
        tool("once", json!({})),
        tool("look", json!({ "readOnlyHint": true })),
        tool("set", json!({ "idempotentHint": true })),
    ])
}

/// A newer server that answers calls as the test defines.
async fn stage(answer: impl Fn(&Asked) -> Said + Send + Sync + 'static) -> Stage {
    Stage::start(move |asked| modern(asked, &tools()).unwrap_or_else(|| answer(asked))).await
}

// rows: SK-A8
#[tokio::test]
async fn results_and_errors_reach_the_model() {
    let stage = stage(|asked| match asked.params()["arguments"]["text"].as_str().unwrap() {
        "fails" => asked.result(json!({ "resultType": "complete", "isError": true, "content": [{ "type": "text", "text": "no" }] })),
        "unwraps" => asked.text(r#"{"output": "inside", "error": null}"#),
        "refuses" => asked.error(-32602, "no such thing"),
        "new" => asked.result(json!({ "resultType": "complete", "content": [{ "type": "smell" }] })),
        "odd" => asked.result(json!({ "resultType": "complete", "tools": [] })),
        text => asked.text(&format!("said {text}")),
    })
    .await;
    let hub = hub_of(&stage).await;
    let once = find(&hub, "once");
    let said = async |text: &str| shown(&call(&once, json!({ "text": text })).await);
    assert_eq!(said("x").await, "ok: said x");
    assert_eq!(said("fails").await, "error: Tool error: no");
    assert_eq!(said("unwraps").await, "ok: inside");
    assert_eq!(said("refuses").await, "error: Tool error: no such thing (-32602)");
    assert_eq!(said("new").await, "ok: [content of unknown type `smell`]");
    assert!(said("odd").await.contains("is not a tool result"));
    let sent = &stage.asked("tools/call")[0];
    assert_eq!((sent.header("mcp-method"), sent.header("mcp-name")), (Some("tools/call"), Some("once")));
    assert_eq!(sent.params()["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    let capabilities = &sent.params()["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert!(capabilities.get("sampling").is_none() && capabilities.get("roots").is_none(), "{capabilities}");
    assert!(capabilities["elicitation"].get("url").is_some());
}

#[tokio::test]
async fn a_call_that_breaks_off_is_sent_again_only_where_that_changes_nothing() {
    let breaks = |asked: &Asked| {
        let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params":
            { "progressToken": asked.params()["_meta"]["progressToken"], "progress": 1 } });
        Said::Stream(vec![Step::Event(progress), Step::Break])
    };
    for (name, times, wanted) in [("once", 1, "lost"), ("set", 2, "lost"), ("look", 2, "lost")] {
        let stage = stage(breaks).await;
        let hub = hub_of(&stage).await;
        let output = call(&find(&hub, name), json!({})).await;
        assert!(shown(&output).starts_with(wanted), "{name}: {}", shown(&output));
        assert_eq!(stage.asked("tools/call").len(), times, "{name}");
    }
    // The retry succeeds, so the caller does not notice.
    let first = Mutex::new(true);
    let stage = stage(move |asked| match std::mem::take(&mut *first.lock().unwrap()) {
        true => Said::Stream(vec![Step::Break]),
        false => asked.text("after all"),
    })
    .await;
    let hub = hub_of(&stage).await;
    assert_eq!(shown(&call(&find(&hub, "look"), json!({})).await), "ok: after all");
    // Hints count only if the server is trusted.
    let stage = stage_of_breaks().await;
    let hub = super::hub(at("stage", &stage.url)).await;
    assert!(shown(&call(&find(&hub, "look"), json!({})).await).starts_with("lost"));
    assert_eq!(stage.asked("tools/call").len(), 1);
}

async fn stage_of_breaks() -> Stage {
    stage(|_| Said::Stream(vec![Step::Break])).await
}

#[tokio::test]
async fn a_call_that_was_refused_is_no_lost_one() {
    let cases = [(429, "HTTP 429"), (400, "HTTP 400"), (404, "HTTP 404")];
    for (status, wanted) in cases {
        let stage = stage(move |_| Said::Json(status, json!({ "sorry": true }))).await;
        let hub = hub_of(&stage).await;
        let said = shown(&call(&find(&hub, "once"), json!({})).await);
        assert!(said.starts_with("error: ") && said.contains(wanted), "{status}: {said}");
    }
    for status in [500, 502, 503] {
        let stage = stage(move |_| Said::Json(status, json!({ "sorry": true }))).await;
        let hub = hub_of(&stage).await;
        let said = shown(&call(&find(&hub, "once"), json!({})).await);
        assert!(said.starts_with("lost: "), "a proxy may have passed it on: {status}: {said}");
    }
}

/// Provides another header each time a server refuses one.
struct Fresh;

#[async_trait::async_trait]
impl HeadersProvider for Fresh {
    async fn headers(&self, _why: HeadersFor) -> Result<Vec<(String, String)>, String> {
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn an_error_that_only_speaks_of_a_401_is_no_401() {
    let stage = stage(|_| Said::Json(400, json!({ "sorry": "upstream said HTTP 401" }))).await;
    let http = Http { headers_provider: Some(Arc::new(Fresh)), ..Http::new(&stage.url) };
    let hub = hub(McpServer::new("stage", Transport::Http(http))).await;
    let said = shown(&call(&find(&hub, "once"), json!({})).await);
    assert!(said.starts_with("error: ") && said.contains("HTTP 400"), "{said}");
    assert_eq!(stage.asked("tools/call").len(), 1, "what was answered is not sent again");
}

#[tokio::test]
async fn what_a_server_says_of_its_failure_holds_no_secret_of_ours() {
    let stage = stage(|asked| {
        let header = asked.header("x-api-key").unwrap_or_default().to_owned();
        match asked.params()["arguments"]["text"].as_str().unwrap() {
            "fails" => Said::Json(400, json!({ "your key": header })),
            text => asked.text(&format!("{text} {header}")),
        }
    })
    .await;
    let headers = vec![("x-api-key".to_owned(), "SENTINEL-1".to_owned())];
    let http = Http { headers, ..Http::new(format!("{}?api_key=SENTINEL-2", stage.url)) };
    let hub = hub(McpServer::new("stage", Transport::Http(http))).await;
    let once = find(&hub, "once");
    let failed = shown(&call(&once, json!({ "text": "fails" })).await);
    assert!(failed.contains("HTTP 400") && failed.contains("[masked]"), "{failed}");
    assert_eq!(shown(&call(&once, json!({ "text": "echoes" })).await), "ok: echoes [masked]");
    // The error for an unreachable address does not contain its query.
    drop(stage);
    let away = shown(&call(&once, json!({ "text": "x" })).await);
    hub.restart("stage").unwrap();
    hub.settled(20_000).await;
    let told = format!("{away} {:?} {:?}", hub.status(), hub.logs("stage"));
    assert!(told.contains("cannot be reached"), "{told}");
    assert!(!told.contains("SENTINEL") && !told.contains("for url"), "{told}");
}

// rows: ZE-X7
#[tokio::test]
async fn progress_is_reported_and_gives_a_call_its_time_again() {
    let go = Arc::new(Notify::new());
    let held = go.clone();
    let stage = stage(move |asked| {
        let progress = |n: u32, message: &str| {
            let token = &asked.params()["_meta"]["progressToken"];
            Step::Event(json!({ "jsonrpc": "2.0", "method": "notifications/progress",
                "params": { "progressToken": token, "progress": n, "total": 4, "message": message } }))
        };
        Said::Stream(vec![
            progress(1, "warming up"),
            Step::Until(held.clone()),
            progress(2, "at work"),
            Step::Until(held.clone()),
            asked.event("done"),
        ])
    })
    .await;
    let timeouts = Timeouts { call_ms: 400, ..Timeouts::default() };
    let hub = hub(McpServer { timeouts, ..trusted("stage", &stage.url) }).await;
    let once = find(&hub, "once");
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let progress = ProgressSender::new(move |text| drop(told.send(text)));
    let calling =
        tokio::spawn(async move { called(&once, CallContext { progress, ..context() }, json!({})).await });
    assert_eq!(heard.recv().await.unwrap(), "warming up (25 %)");
    go.notify_one();
    assert_eq!(heard.recv().await.unwrap(), "at work (50 %)");
    // Silence longer than the call's time limit: the server's state is unknown.
    assert_eq!(
        shown(&calling.await.unwrap()),
        "lost: the server `stage`: no response and no progress for 400 ms"
    );
}

#[tokio::test]
async fn a_stopped_call_is_cancelled_at_the_server() {
    let go = Arc::new(Notify::new());
    let held = go.clone();
    let stage = Stage::start(move |asked| {
        legacy(asked, &tools()).unwrap_or_else(|| match asked.rpc() {
            "tools/call" => Said::Stream(vec![Step::Until(held.clone()), asked.event("too late")]),
            _ => Said::Status(202),
        })
    })
    .await;
    let hub = hub_of(&stage).await;
    let (once, context) = (find(&hub, "once"), context());
    let cancel = context.cancel.clone();
    let calling = tokio::spawn(async move { called(&once, context, json!({})).await });
    stage.until("tools/call", 1).await;
    cancel.cancel();
    assert_eq!(shown(&calling.await.unwrap()), "lost: the server `stage`: the call was cancelled");
    stage.until("notifications/cancelled", 1).await;
    let cancelled = &stage.asked("notifications/cancelled")[0];
    assert_eq!(cancelled.params()["requestId"], stage.asked("tools/call")[0].body["id"]);
}

#[tokio::test]
async fn many_calls_run_beside_each_other() {
    let stage = stage(|asked| {
        let text = asked.params()["arguments"]["text"].as_str().unwrap().to_owned();
        Said::Stream(vec![Step::Event(
            json!({ "jsonrpc": "2.0", "id": asked.body["id"], "result": text_result(&text) }),
        )])
    })
    .await;
    let hub = hub_of(&stage).await;
    let look = find(&hub, "look");
    let calls = (0..100).map(|n| {
        let look = look.clone();
        tokio::spawn(async move { shown(&call(&look, json!({ "text": n.to_string() })).await) })
    });
    for (n, said) in futures::future::join_all(calls).await.into_iter().enumerate() {
        assert_eq!(said.unwrap(), format!("ok: {n}"));
    }
}
