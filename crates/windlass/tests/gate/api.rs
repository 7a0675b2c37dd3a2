//! Services of an engine and of single runs, end to end: which calls need approval or are repeated, and that secrets do
//! not leak.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt;
use serde_json::{Value, json};
use windlass::clock::SystemClock;
use windlass::machine::{Answer, AutoRun, InterruptKind, Seq, WhenBusy};
use windlass::memory::MemoryStore;
use windlass::outbound::Outbound;
use windlass::port::tool::Tool;
use windlass::secret::Secret;
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::tool::Registry;
use windlass::tool::api::{Api, ApiCall};
use windlass::{Engine, Outcome, RunTools, Status, Task};

use super::{asking, open, store, told};
use crate::drive::{party, stored, task};
use crate::outbound::{Far, Reply, inside, way};

const TOKEN: &str = "sk-SENTINEL/token+0123456789";

/// A model that makes these calls, one after another, and then repeats the last result.
fn calls(arguments: Vec<Value>) -> ScriptedModels {
    ScriptedModels::new(move |call| match arguments.get(results(call)) {
        Some(arguments) => Line::tool("ApiCall", &arguments.to_string()),
        None => Line::Say(told(call)),
    })
}

fn ask(method: &str, path: &str) -> Value {
    json!({"service": "a", "method": method, "path": path})
}

fn api(far: &Far, token: &str, more: Value) -> Api {
    let mut service =
        json!({"name": "a", "base_url": far.url(""), "auth": {"type": "bearer", "token_ref": "t"}});
    service.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let env = BTreeMap::from([("t".to_owned(), Secret::new(token))]);
    Api::new(vec![serde_json::from_value(service).unwrap()], env)
}

async fn engine(store: &MemoryStore, models: &ScriptedModels, api: Option<Api>) -> Engine {
    asking(store, models, registry(api)).build().await.unwrap()
}

/// The tool for these services, if there are any.
fn registry(api: Option<Api>) -> Registry {
    let tool = api.and_then(|api| ApiCall::new(api, local(), Arc::new(SystemClock::new())).unwrap());
    windlass::registry().add_all(tool.map(|tool| Arc::new(tool) as Arc<dyn Tool>)).unwrap()
}

/// Calls to this machine.
fn local() -> Outbound {
    way(inside(&["127.0.0.1"]), &[])
}

/// The tools of a run with its own services.
fn own(api: Api) -> RunTools {
    ApiCall::for_run(api, local(), Arc::new(SystemClock::new())).unwrap()
}

#[tokio::test]
async fn reads_run_and_what_changes_something_asks() {
    let far = Far::start(|asked| Reply::ok("text/plain", asked.line())).await;
    let models = calls(vec![ask("GET", "/x"), ask("POST", "/x"), ask("DELETE", "/x")]);
    let engine = engine(&store(), &models, Some(api(&far, TOKEN, json!({})))).await;
    let mut outcome = engine.run_task(task("go")).await.unwrap();
    for lines in [vec!["GET /x"], vec!["GET /x", "POST /x"]] {
        assert_eq!(far.lines(), lines);
        let [interrupt] = &*open(&outcome) else { panic!("{outcome:?}") };
        engine.thread(&outcome.thread).answer(interrupt, Answer::Approve, party("ann")).await.unwrap();
        outcome = engine.run(&outcome.run).wait().await.unwrap();
    }
    assert_eq!(outcome.status, Status::Done, "{outcome:?}");
    assert_eq!(far.lines(), ["GET /x", "POST /x", "DELETE /x"]);
    let keys: Vec<_> =
        far.asked().iter().map(|asked| asked.header("idempotency-key").map(str::to_owned)).collect();
    assert!(keys[0].is_none() && keys[1].is_some() && keys[2].is_some() && keys[1] != keys[2], "{keys:?}");
}

#[tokio::test]
async fn a_request_that_was_lost_is_in_doubt_or_repeated_with_its_key() {
    let cut = |asked: &crate::outbound::Asked| match asked.line().as_str() {
        "POST /cut" => Reply::Bytes(Vec::new()),
        line => Reply::ok("text/plain", line),
    };
    let far = Far::start(cut).await;
    for (more, requests) in [(json!({}), 1), (json!({"idempotency_keys": true}), 3)] {
        let before = far.asked().len();
        let models = calls(vec![ask("POST", "/cut")]);
        let store = store();
        let ports = Arc::new(store.clone());
        let registry = registry(Some(api(&far, TOKEN, more)));
        let engine = asking(&store, &models, registry).ports(ports.clone(), ports.clone(), ports);
        let engine = engine.auto_run(AutoRun::Everything).build().await.unwrap();
        let outcome = engine.run_task(task("go")).await.unwrap();
        assert!(matches!(outcome.interrupts[0].kind, InterruptKind::InDoubt { .. }), "{outcome:?}");
        let asked = far.asked().split_off(before);
        assert_eq!(asked.len(), requests);
        let key = asked[0].header("idempotency-key").unwrap();
        assert!(asked.iter().all(|again| again.header("idempotency-key") == Some(key)));
    }
}

// rows: LM-I7
#[tokio::test]
async fn each_run_has_the_services_and_secrets_of_its_tenant() {
    let who = |asked: &crate::outbound::Asked| {
        let name = match asked.header("authorization") {
            Some("Bearer engine-token") => "engine",
            Some("Bearer tenant-token-1") => "one",
            Some("Bearer tenant-token-2") => "two",
            _ => "nobody",
        };
        Reply::ok("text/plain", format!("by {name}"))
    };
    let far = Far::start(who).await;
    let models = calls(vec![ask("GET", "/x")]);
    let engine = engine(&store(), &models, Some(api(&far, "engine-token", json!({})))).await;
    let run = async |api: Option<Api>| {
        let tools = api.map_or(RunTools::Usual, own);
        let outcome = engine.run_task(Task { tools, ..task("go") }).await.unwrap();
        outcome.text.unwrap()
    };
    let tenant = |token: &str| Some(api(&far, token, json!({})));
    assert!(run(tenant("tenant-token-1")).await.ends_with("by one"));
    assert!(run(tenant("tenant-token-2")).await.ends_with("by two"));
    assert!(run(None).await.ends_with("by engine"));
    // An empty list means no services, not the engine's.
    let said = run(Some(Api::new(vec![], BTreeMap::new()))).await;
    assert!(said.contains("Unknown tool: ApiCall"), "{said}");
    let other = json!({"name": "a", "base_url": "ftp://x"});
    let wrong = Api::new(vec![serde_json::from_value(other).unwrap()], BTreeMap::new());
    let wrong = ApiCall::for_run(wrong, local(), Arc::new(SystemClock::new()));
    let error = wrong.unwrap_err().to_string();
    assert!(error.contains("`ftp` URLs are not allowed"), "{error}");
    assert_eq!(far.asked().len(), 3);
}

// rows: LM-I7
#[tokio::test]
async fn a_run_resumed_elsewhere_never_gets_other_credentials() {
    let far =
        Far::start(|asked| Reply::ok("text/plain", asked.header("authorization").unwrap_or("nobody"))).await;
    let models = calls(vec![ask("POST", "/x"), ask("GET", "/y")]);
    let tool = |token: &str| -> Arc<dyn Tool> {
        let made = ApiCall::new(api(&far, token, json!({})), local(), Arc::new(SystemClock::new()));
        Arc::new(made.unwrap().unwrap())
    };
    for found in [None, Some("tenant-token")] {
        let before = far.asked().len();
        let memory = store();
        let first = engine(&memory, &models, Some(api(&far, "engine-token", json!({})))).await;
        let task = Task { tools: own(api(&far, "tenant-token", json!({}))), ..task("go") };
        let outcome = first.run_task(task).await.unwrap();
        let [interrupt] = &*open(&outcome) else { panic!("{outcome:?}") };
        super::put_down(&first, &outcome.thread).await;
        let node = memory.another_node();
        let builder = asking(&node, &models, registry(Some(api(&far, "engine-token", json!({})))));
        let again = match found {
            None => builder,
            Some(token) => {
                let tool = tool(token);
                builder.tools_of(move |_, _| Ok(vec![tool.clone()]))
            }
        };
        let again = again.build().await.unwrap();
        let answered = again.thread(&outcome.thread).answer(interrupt, Answer::Approve, party("ann")).await;
        assert_eq!(answered.is_ok(), found.is_some(), "{answered:?}");
        if found.is_none() {
            // The call waits for a process that has the credentials.
            assert_eq!(far.asked().len(), before);
            continue;
        }
        let outcome = again.run(&outcome.run).wait().await.unwrap();
        assert_eq!(outcome.status, Status::Done, "{outcome:?}");
        let asked = far.asked().split_off(before);
        assert_eq!(asked.len(), 2, "{outcome:?}");
        assert!(asked.iter().all(|asked| asked.header("authorization") == Some("Bearer tenant-token")));
    }
}

// rows: LM-I7
#[tokio::test]
async fn a_start_that_failed_leaves_no_services_behind() {
    let far = Far::start(|_| Reply::ok("text/plain", "")).await;
    let models = calls(vec![ask("POST", "/x")]);
    let engine = engine(&store(), &models, Some(api(&far, "engine-token", json!({})))).await;
    let waiting = engine.run_task(task("go")).await.unwrap();
    assert_eq!(waiting.status, Status::Paused, "{waiting:?}");
    for id in [None, Some("named".into())] {
        let services = api(&far, "tenant-token", json!({}));
        let kept = Arc::downgrade(&services.secrets);
        let thread = Some(waiting.thread.clone());
        let when_busy = WhenBusy::Reject;
        let refused =
            engine.start(Task { tools: own(services), thread, when_busy, id, ..task("more") }).await;
        assert!(refused.is_err(), "{refused:?}");
        assert!(kept.upgrade().is_none(), "its secrets are kept for a run that there is not");
    }
    // A started run keeps its services.
    let services = api(&far, "tenant-token", json!({}));
    let kept = Arc::downgrade(&services.secrets);
    let waiting = engine.run_task(Task { tools: own(services), ..task("go") }).await.unwrap();
    assert_eq!(waiting.status, Status::Paused, "{waiting:?}");
    assert!(kept.upgrade().is_some());
}

/// All lines that a subscriber receives.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The forms in which the token must not appear: whole, and fragments that occur in no other text.
fn traces() -> Vec<String> {
    let percent: String = TOKEN.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let mut traces =
        vec!["SENTINEL".to_owned(), percent[..24].to_owned(), percent[..24].to_ascii_lowercase()];
    for before in ["", "x", "xx"] {
        let encoded = STANDARD.encode(format!("{before}{TOKEN}"));
        traces.push(encoded[8..20].to_owned());
    }
    traces
}

fn found_in(bytes: &[u8]) -> Option<String> {
    traces().into_iter().find(|trace| bytes.windows(trace.len()).any(|window| window == trace.as_bytes()))
}

fn files(folder: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if let Ok(bytes) = std::fs::read(&path) {
            found.push((path.display().to_string(), bytes));
        }
    }
}

// rows: LM-I6
#[tokio::test]
async fn no_secret_is_found_anywhere() {
    let far = Far::start(|asked| {
        let percent: String = TOKEN.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let echo = format!("{TOKEN} {} {percent} {}", STANDARD.encode(format!("u:{TOKEN}")), asked.head);
        match asked.line().as_str() {
            "GET /cut" => Reply::Bytes(Vec::new()),
            "GET /chunks" => {
                let chunks: String = echo.chars().map(|c| format!("{:x}\r\n{c}\r\n", c.len_utf8())).collect();
                let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
                Reply::Pieces(format!("{head}{chunks}0\r\n\r\n").into_bytes(), 7)
            }
            "GET /denied" => Reply::with(403, &[("etag", TOKEN)], echo),
            // Larger than what an append holds inline: a separate blob.
            "GET /large" => Reply::ok("text/plain", format!("{echo}\n").repeat(100)),
            _ => Reply::ok("text/plain", echo),
        }
    })
    .await;
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone());
    let _listening = tracing::subscriber::set_default(subscriber.finish());
    let prompts: Arc<Mutex<String>> = Arc::default();
    let seen = prompts.clone();
    let paths = ["/plain", "/chunks", "/denied", "/large", "/cut", "/../up", "/missing"];
    let script = ScriptedModels::new(move |call| {
        seen.lock().unwrap().push_str(&serde_json::to_string(&call.request).unwrap());
        match paths.get(results(call)) {
            Some(path) => Line::tool("ApiCall", &ask("GET", path).to_string()),
            None => Line::Say(told(call)),
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let registry = registry(Some(api(&far, TOKEN, json!({}))));
    let engine = stored(folder.path(), &script, registry).build().await.unwrap();
    let (started, updates) = engine.start_watched(task("go")).await.unwrap();
    let watched = tokio::spawn(async move {
        let mut text = String::new();
        let mut updates = updates;
        while let Some(update) = updates.next().await {
            let line = format!("{:?}", update.unwrap());
            let ends = line.contains("RunFinished");
            text.push_str(&line);
            if ends {
                break;
            }
        }
        text
    });
    let outcome: Outcome = engine.run(&started.run).wait().await.unwrap();
    assert_eq!(outcome.status, Status::Done, "{outcome:?}");
    assert!(
        far.asked().iter().all(|asked| asked.header("authorization") == Some(&*format!("Bearer {TOKEN}")))
    );
    assert_eq!(far.asked().len(), 6);
    let events = engine.thread(&started.thread).events(Seq(0), 1000).await.unwrap();
    let prompts = prompts.lock().unwrap().clone();
    assert!(prompts.contains("[masked]"), "what was echoed reached the model, masked");
    let mut places = vec![
        ("prompts".to_owned(), prompts.into_bytes()),
        (
            "events".to_owned(),
            serde_json::to_vec(&events.iter().map(|it| &it.event).collect::<Vec<_>>()).unwrap(),
        ),
        ("outcome".to_owned(), format!("{outcome:?}").into_bytes()),
        ("updates".to_owned(), watched.await.unwrap().into_bytes()),
        ("log".to_owned(), log.0.lock().unwrap().clone()),
    ];
    files(folder.path(), &mut places);
    assert!(places.len() > 6);
    for (place, bytes) in places {
        assert!(!bytes.is_empty() || place.contains('/'), "{place} is empty");
        assert_eq!(found_in(&bytes), None, "in {place}");
    }
}
