//! Values sent at request time, which a server echoes in every encoding: models and people never see them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::sync::Notify;
use windlass::mcp::{HeadersFor, HeadersProvider, Http, McpServer, Transport};
use windlass::port::tool::{CallContext, ProgressSender};

use super::stage::{Asked, Said, Stage, Step, modern, text_result, tool};
use super::{called, context, find, hub, shown};

/// Provides another token each time, in a header without a secret name. Can be made to panic once.
#[derive(Default)]
struct Tokens {
    count: AtomicU32,
    crashes: Mutex<bool>,
}

fn token(nth: u32) -> String {
    format!("sentinel-pro/{nth:0>4}+31a")
}

#[async_trait]
impl HeadersProvider for Tokens {
    async fn headers(&self, _why: HeadersFor) -> Result<Vec<(String, String)>, String> {
        let token = token(self.count.fetch_add(1, Ordering::SeqCst));
        if std::mem::take(&mut *self.crashes.lock().unwrap()) {
            panic!("no session for {token}");
        }
        Ok(vec![("x-session".into(), format!("Custom {token}"))])
    }
}

// rows: LM-P2
#[tokio::test]
async fn progress_is_cut_before_it_waits_and_no_beginning_of_a_secret_is_left() {
    const SECRET: &str = "sentinel-cut/7b+42e";
    let go = Arc::new(Notify::new());
    let held = go.clone();
    let stage = Stage::start(move |asked| {
        modern(asked, &json!([tool("once", json!({}))])).unwrap_or_else(|| {
            // The bound falls within the secret.
            let said = format!("{}{SECRET}{}", "x".repeat(4 * 1024 - 12), "y".repeat(100_000));
            let token = &asked.params()["_meta"]["progressToken"];
            let progress = json!({ "progressToken": token, "progress": 1, "total": 2, "message": said });
            let note = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": progress });
            Said::Stream(vec![Step::Event(note), Step::Until(held.clone()), asked.event("done")])
        })
    })
    .await;
    let headers = vec![("x-api-key".to_owned(), SECRET.to_owned())];
    let http = Http { headers, ..Http::new(&stage.url) };
    let hub = hub(McpServer::new("stage", Transport::Http(http))).await;
    let heard = Arc::<Mutex<Vec<String>>>::default();
    let hears = heard.clone();
    let progress = ProgressSender::new(move |text| {
        hears.lock().unwrap().push(text);
        go.notify_one();
    });
    let done = called(&find(&hub, "once"), CallContext { progress, ..context() }, json!({})).await;
    assert_eq!(shown(&done), "ok: done");
    let wanted = format!("{}[masked] (50 %)", "x".repeat(4 * 1024 - 12));
    assert_eq!(*heard.lock().unwrap(), [wanted]);
}

/// The encodings in which a secret is echoed.
pub fn forms(secret: &str) -> String {
    let percent: String = secret.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let odd = secret.replace('/', "%2F").replace('+', "%2B");
    let cut = secret.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!(
        "{secret} {percent} {odd} {cut} {} {}",
        STANDARD.encode(secret),
        STANDARD.encode(format!("u:{secret}"))
    )
}

fn script(asked: &Asked) -> Said {
    let given = forms(asked.header("x-session").unwrap().strip_prefix("Custom ").unwrap());
    let mut described = tool("once", json!({}));
    described["description"] = json!(given);
    if let Some(said) = modern(asked, &json!([described])) {
        return said;
    }
    let way = asked.params()["arguments"]["text"].as_str().unwrap_or_default();
    match way {
        "error" => asked.error(-32_000, &given),
        "page" => Said::Json(500, json!(given)),
        _ => {
            let token = &asked.params()["_meta"]["progressToken"];
            let progress = json!({ "progressToken": token, "progress": 1, "message": given });
            let said = json!({ "level": "warning", "data": given });
            let note = |method: &str, params: Value| {
                Step::Event(json!({ "jsonrpc": "2.0", "method": method, "params": params }))
            };
            let mut result = text_result(&given);
            result["structuredContent"] = json!({ "given": given });
            Said::Stream(vec![
                note("notifications/progress", progress),
                note("notifications/message", said),
                Step::Event(json!({ "jsonrpc": "2.0", "id": asked.body["id"], "result": result })),
            ])
        }
    }
}

fn assert_none(text: &str, count: u32) {
    for secret in (0..count).map(token) {
        for form in forms(&secret).split(' ') {
            assert!(!text.contains(form), "`{form}` in {text}");
        }
    }
}

// rows: LM-P2
#[tokio::test]
async fn values_that_a_program_gives_for_each_request_are_not_said_back() {
    let stage = Stage::start(script).await;
    let provider = Arc::new(Tokens::default());
    let http = Http { headers_provider: Some(provider.clone()), ..Http::new(&stage.url) };
    let server = McpServer { trusted: true, ..McpServer::new("stage", Transport::Http(http)) };
    let hub = hub(server).await;
    let once = find(&hub, "once");
    let heard = Arc::<Mutex<Vec<String>>>::default();
    let mut told = vec![once.spec().description.clone()];
    for way in ["plain", "error", "page"] {
        let hears = heard.clone();
        let progress = ProgressSender::new(move |text| hears.lock().unwrap().push(text));
        let context = CallContext { progress, ..context() };
        let said = shown(&called(&once, context, json!({ "text": way })).await);
        assert!(way == "page" || said.contains("[masked]"), "{way}: {said}");
        told.push(said);
    }
    told.extend(heard.lock().unwrap().iter().cloned());
    let log = hub.logs("stage").unwrap().join("\n");
    assert!(log.contains("[masked]") && told.iter().any(|text| text.contains("[masked]")), "{log} {told:?}");
    told.push(log);
    // The error page has triggered a check of the connection. Only the call's request must panic.
    hub.restart("stage").unwrap();
    hub.ready("stage").await.unwrap();
    // A panic in the program's own code.
    *provider.crashes.lock().unwrap() = true;
    let crashed =
        tokio::spawn(async move { shown(&called(&once, context(), json!({ "text": "x" })).await) }).await;
    let crashed = crashed.unwrap();
    assert!(crashed.contains("the provider of its headers panicked"), "{crashed}");
    told.push(crashed);
    // It fails that request only.
    told.push(shown(&called(&find(&hub, "once"), context(), json!({ "text": "plain" })).await));
    assert!(told.last().unwrap().starts_with("ok: "), "{told:?}");
    told.push(format!("{:?} {:?}", hub.server("stage"), hub.logs("stage")));
    let count = provider.count.load(Ordering::SeqCst);
    assert!(count > 3);
    told.iter().for_each(|text| assert_none(text, count));
}
