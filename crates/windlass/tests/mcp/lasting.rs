//! Long-lived connections: re-reading the list of tools while calls are in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde_json::json;
use tokio::sync::Notify;
use windlass::clock::ManualClock;
use windlass::machine::Timestamp;
use windlass::mcp::{HeadersFor, HeadersProvider, Health, Http, McpHub, McpServer, Timeouts, Transport};
use windlass::port::clock::Clock as _;
use windlass::port::tool::{CallContext, ToolReply};

use super::away::{on, while_passes, while_time_passes};
use super::stage::{Asked, Said, Stage, Step, legacy, modern, tool};
use super::{call, called, context, find, shown, trusted, values};

/// A server's response to a re-read of the list.
type Refusal = fn(&Asked) -> Said;

const REFUSALS: [(&str, Refusal); 7] = [
    ("an error", |asked| asked.error(-32603, "Internal error")),
    ("too many requests", |_| Said::Status(429)),
    ("a gateway's word", |_| Said::Status(503)),
    ("401", |_| Said::Status(401)),
    ("a gateway's refusal", |_| Said::Status(403)),
    ("a gateway's page", |_| {
        Said::With(200, vec![("content-type", "text/html".to_owned())], json!("<p>one moment</p>"))
    }),
    ("a result that is no list", |asked| asked.result(json!({ "resultType": "complete", "tools": "none" }))),
];

/// A server whose list is valid for 10 s, and whose calls end when released.
fn script(asked: &Asked, list: Option<Refusal>, go: &Arc<Notify>) -> Said {
    match (asked.rpc(), list) {
        ("tools/list", Some(refusal)) => refusal(asked),
        ("tools/list", None) => asked.result(json!({ "resultType": "complete", "ttlMs": 10_000,
            "cacheScope": "private", "tools": [tool("once", json!({}))] })),
        ("tools/call", _) => Said::Stream(vec![Step::Until(go.clone()), asked.event("done")]),
        _ => modern(asked, &json!([])).unwrap_or(Said::Status(404)),
    }
}

// rows: LM-B3
#[tokio::test]
async fn a_call_at_work_outlives_a_list_that_cannot_be_read_again() {
    for (name, refusal) in REFUSALS {
        let clock = Arc::new(ManualClock::new(Timestamp(1_000_000), 7));
        let go = Arc::new(Notify::new());
        let held = go.clone();
        let stage = Stage::start(move |asked| script(asked, None, &held)).await;
        let hub = McpHub::new(on(&clock));
        hub.start(vec![trusted("stage", &stage.url)]).await.unwrap();
        hub.ready("stage").await.unwrap();
        let once = find(&hub, "once");
        let at_work = tokio::spawn(async move { shown(&call(&once, json!({})).await) });
        stage.until("tools/call", 1).await;
        let held = go.clone();
        stage.says(move |asked| script(asked, Some(refusal), &held));
        while_time_passes(&clock, stage.until("tools/list", 6)).await;
        let status = hub.server("stage").unwrap();
        assert_eq!(status.tools.len(), 1, "{name}: what is known of it stays");
        // New callers are not sent to a server behind a failing gateway.
        assert_eq!(status.health.is_ready(), name != "a gateway's word", "{name}: {status:?}");
        let held = go.clone();
        stage.says(move |asked| script(asked, None, &held));
        let asked = stage.asked("tools/list").len();
        while_time_passes(&clock, stage.until("tools/list", asked + 2)).await;
        assert!(hub.server("stage").unwrap().health.is_ready(), "{name}");
        go.notify_one();
        assert_eq!(at_work.await.unwrap(), "ok: done", "{name}");
        assert_eq!(stage.asked("server/discover").len(), 1, "{name}: it is the same connection");
        // An idle connection is replaced, because the server may have lost it.
        stage.says(move |asked| script(asked, Some(refusal), &go));
        while_time_passes(&clock, stage.until("server/discover", 2)).await;
    }
}

/// Provides headers while allowed.
#[derive(Default)]
struct Headers {
    fails: AtomicBool,
    failed: AtomicU32,
}

#[async_trait::async_trait]
impl HeadersProvider for Headers {
    async fn headers(&self, _why: HeadersFor) -> Result<Vec<(String, String)>, String> {
        if !self.fails.load(Ordering::SeqCst) {
            return Ok(Vec::new());
        }
        self.failed.fetch_add(1, Ordering::SeqCst);
        Err("no token available".into())
    }
}

#[tokio::test]
async fn a_call_at_work_outlives_headers_that_cannot_be_had() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000_000), 7));
    let go = Arc::new(Notify::new());
    let held = go.clone();
    let stage = Stage::start(move |asked| script(asked, None, &held)).await;
    let provider = Arc::new(Headers::default());
    let http = Http { headers_provider: Some(provider.clone()), ..Http::new(&stage.url) };
    let hub = McpHub::new(on(&clock));
    hub.start(vec![McpServer::new("stage", Transport::Http(http))]).await.unwrap();
    hub.ready("stage").await.unwrap();
    let once = find(&hub, "once");
    let at_work = tokio::spawn(async move { shown(&call(&once, json!({})).await) });
    stage.until("tools/call", 1).await;
    provider.fails.store(true, Ordering::SeqCst);
    let often = async {
        while provider.failed.load(Ordering::SeqCst) < 6 {
            tokio::task::yield_now().await;
        }
    };
    while_time_passes(&clock, often).await;
    go.notify_one();
    assert_eq!(at_work.await.unwrap(), "ok: done");
}

/// Waits until a server is ready, or is not.
async fn until_ready(hub: &McpHub, is_ready: bool) {
    while hub.server("stage").unwrap().health.is_ready() != is_ready {
        tokio::task::yield_now().await;
    }
}

// rows: LM-B3
#[tokio::test]
async fn a_server_that_was_found_away_is_not_back_before_it_has_answered() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000_000), 7));
    let go = Arc::new(Notify::new());
    let says = |list: Option<Refusal>| {
        let held = go.clone();
        move |asked: &Asked| script(asked, list, &held)
    };
    let stage = Stage::start(says(None)).await;
    let provider = Arc::new(Headers::default());
    let http = Http { headers_provider: Some(provider.clone()), ..Http::new(&stage.url) };
    let timeouts = Timeouts { request_ms: 20_000, ..Timeouts::default() };
    let hub = McpHub::new(on(&clock));
    hub.start(vec![McpServer { timeouts, ..McpServer::new("stage", Transport::Http(http)) }]).await.unwrap();
    hub.ready("stage").await.unwrap();
    let once = find(&hub, "once");
    let at_work = tokio::spawn(async move { shown(&call(&once, json!({})).await) });
    stage.until("tools/call", 1).await;
    let (unserved, hangs): (Refusal, Refusal) =
        (|_| Said::Status(503), |_| Said::Stream(vec![Step::Until(Arc::default())]));
    stage.says(says(Some(unserved)));
    while_time_passes(&clock, until_ready(&hub, false)).await;
    // The server does not respond.
    stage.says(says(Some(hangs)));
    let asked = stage.asked("tools/list").len();
    while_time_passes(&clock, stage.until("tools/list", asked + 3)).await;
    assert!(!hub.server("stage").unwrap().health.is_ready());
    // The request is not even sent.
    provider.fails.store(true, Ordering::SeqCst);
    let failed = async {
        while provider.failed.load(Ordering::SeqCst) < 3 {
            tokio::task::yield_now().await;
        }
    };
    while_time_passes(&clock, failed).await;
    assert!(!hub.server("stage").unwrap().health.is_ready());
    // A reported sign-in triggers a new attempt at once; `Health` has the reason of its failure.
    let state = Some(json!({ "waits_for": "sign_in" }).to_string());
    let signed_in = CallContext { reply: Some(ToolReply { answer: values(json!({})), state }), ..context() };
    let said = while_time_passes(&clock, called(&find(&hub, "once"), signed_in, json!({}))).await;
    assert!(shown(&said).contains("`stage` has been unavailable"), "{}", shown(&said));
    let Health::Unavailable { why, .. } = hub.server("stage").unwrap().health else { panic!() };
    assert!(why.contains("no token available"), "{why}");
    stage.says(says(None));
    provider.fails.store(false, Ordering::SeqCst);
    while_time_passes(&clock, until_ready(&hub, true)).await;
    go.notify_one();
    assert_eq!(at_work.await.unwrap(), "ok: done");
}

#[tokio::test]
async fn a_held_call_that_has_ended_does_not_hide_a_server_that_hangs() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000_000), 7));
    let question = json!({ "jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {
        "message": "Sure?", "requestedSchema": { "type": "object", "properties": {} } } });
    let ends = Arc::new(Notify::new());
    let end = ends.clone();
    let stage = Stage::start(move |asked| match asked.rpc() {
        "tools/list" => asked.result(json!({ "ttlMs": 10_000, "tools": [tool("once", json!({}))] })),
        // The server does not wait for the answer to its question.
        "tools/call" => {
            let asks = Step::Event(question.clone());
            Said::Stream(vec![asks, Step::Until(end.clone()), asked.event("done")])
        }
        _ => legacy(asked, &json!([])).unwrap_or(Said::Status(202)),
    })
    .await;
    let hub = McpHub::new(on(&clock));
    hub.start(vec![trusted("stage", &stage.url)]).await.unwrap();
    hub.ready("stage").await.unwrap();
    let asks = call(&find(&hub, "once"), json!({})).await;
    assert_eq!(shown(&asks), "asks: The server `stage` asks: Sure?");
    ends.notify_one();
    stage.says(|asked| match asked.rpc() {
        "tools/list" => Said::Stream(vec![Step::Until(Arc::default())]),
        _ => legacy(asked, &json!([])).unwrap_or(Said::Status(202)),
    });
    // The answer to the question is not awaited for a day.
    while_passes(&clock, 500, stage.until("initialize", 2)).await;
}

/// A server that notifies of changed lists, on streams whose duration the test defines.
async fn telling(streams: impl Fn(&Asked) -> Said + Send + Sync + 'static) -> Stage {
    Stage::start(move |asked| match asked.rpc() {
        "subscriptions/listen" => streams(asked),
        "server/discover" => asked
            .result(json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "supportedVersions": ["2026-07-28"], "capabilities": { "tools": { "listChanged": true } } })),
        _ => script(asked, None, &Arc::default()),
    })
    .await
}

/// The stream's messages: an acknowledgement, then `times` notifications of a changed list.
fn told(asked: &Asked, times: usize) -> Vec<Step> {
    let meta = json!({ "io.modelcontextprotocol/subscriptionId": asked.body["id"] });
    let accepted = json!({ "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
        "params": { "_meta": meta, "notifications": { "toolsListChanged": true } } });
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": { "_meta": meta } });
    std::iter::once(accepted).chain(std::iter::repeat_n(changed, times)).map(Step::Event).collect()
}

// rows: SK-C20
#[tokio::test]
async fn changes_are_heard_of_after_the_stream_of_them_has_ended() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000_000), 7));
    let stage = telling(|asked| Said::Stream(told(asked, 0))).await;
    let hub = McpHub::new(on(&clock));
    hub.start(vec![trusted("stage", &stage.url)]).await.unwrap();
    hub.ready("stage").await.unwrap();
    // Each stream ends at once. It is requested again, with growing pauses.
    while_time_passes(&clock, stage.until("subscriptions/listen", 6)).await;
    let waited_ms = clock.now().0 - 1_000_000;
    assert!((15_000..60_000).contains(&waited_ms), "half to all of 1, 2, 4, 8 and 16 s: {waited_ms}");
    // A server that refuses is not asked again.
    let refusals: [Refusal; 3] =
        [|asked| asked.error(-32601, "Method not found"), |_| Said::Status(404), |_| Said::Status(405)];
    for refusal in refusals {
        let stage = telling(refusal).await;
        hub.put(trusted("stage", &stage.url)).unwrap();
        while_time_passes(&clock, stage.until("tools/list", 4)).await;
        assert_eq!(stage.asked("subscriptions/listen").len(), 1);
    }
}

#[tokio::test]
async fn a_list_is_read_once_a_second_however_often_it_changes() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000_000), 7));
    let (go, all_said) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (open, said) = (go.clone(), all_said.clone());
    let stage = telling(move |asked| {
        let mut steps = told(asked, 50);
        steps.push(Step::Until(open.clone()));
        said.notify_one();
        Said::Stream(steps)
    })
    .await;
    let hub = McpHub::new(on(&clock));
    hub.start(vec![trusted("stage", &stage.url)]).await.unwrap();
    hub.ready("stage").await.unwrap();
    all_said.notified().await;
    let before = clock.now().0;
    while_passes(&clock, 10, stage.until("tools/list", 6)).await;
    assert!(clock.now().0 - before >= 4_000, "{} ms", clock.now().0 - before);
}
