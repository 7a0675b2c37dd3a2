//! Calls of a server's tools during which the real process is killed. Another process completes the same call from the
//! store.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::{StatusCode, header};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use windlass::testing::mcp::introduction;

use super::state;
use crate::cli::model::{Model, Turn};
use crate::cli::{User, count, lines};
use crate::http::{Server, answer};

/// The state that the server expects back, byte for byte.
const STATE: &str = "v1.\u{0}é\"\\ 🦀 {\"n\": 1.50,\"b\":2}\n==";

/// The server's question during the call of `buy`.
const FORM: &str = r#"{"method":"elicitation/create","params":{"message":"How many?","requestedSchema":
    {"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}}"#;

/// A server of the newer revision. Its only tool is not repeatable and takes more than one request.
struct Stage {
    base: String,
    world: Arc<World>,
    serving: JoinHandle<()>,
}

struct World {
    tool: &'static str,
    /// The requests for the tool and its task, in order.
    asked: watch::Sender<Vec<Value>>,
    task: Mutex<Task>,
}

/// The response to a poll of the task.
#[derive(Clone, Copy, PartialEq)]
enum Task {
    Working,
    /// No response as long as the client is connected.
    Silent,
    Completed,
}

impl Stage {
    async fn start(tool: &'static str) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let world =
            Arc::new(World { tool, asked: watch::Sender::default(), task: Mutex::new(Task::Working) });
        let router = axum::Router::new().route("/mcp", post(mcp)).with_state(world.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { base, world, serving }
    }

    fn is(&self, task: Task) {
        *self.world.task.lock().unwrap() = task;
    }

    /// The parameters of all requests with a method.
    fn asked(&self, method: &str) -> Vec<Value> {
        let asked = self.world.asked.borrow();
        asked.iter().filter(|asked| asked["method"] == method).map(|asked| asked["params"].clone()).collect()
    }

    /// Waits until a method was requested `times` times.
    async fn until(&self, method: &str, times: usize) {
        let mut asked = self.world.asked.subscribe();
        let enough = async {
            while self.asked(method).len() < times {
                asked.changed().await.unwrap();
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(30), enough).await;
        waited.unwrap_or_else(|_| panic!("{method} was not asked {times} times: {:?}", self.world.asked));
    }

    /// A user with this server, whose auto-run setting is `everything`.
    async fn used(&self, model: &Model) -> (Server, String) {
        let user = User::new();
        user.configure(&format!("[mcp.shop]\nurl = '{}/mcp'\ntrusted = true\n", self.base));
        let server = serve(model, user);
        let boss = server.key(&[]);
        let chosen = server.request(Method::PUT, "/api/v1/auto-run").bearer_auth(&boss);
        answer(chosen.json(&json!({"auto_run": "everything"}))).await.is(StatusCode::OK);
        state(&server, &boss, "shop", "connected").await;
        (server, boss)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn mcp(State(world): State<Arc<World>>, body: Bytes) -> Response {
    let asked: Value = serde_json::from_slice(&body).unwrap();
    let method = asked["method"].as_str().unwrap_or_default();
    let tool = json!([{ "name": world.tool, "inputSchema": { "type": "object" },
        "annotations": { "readOnlyHint": false, "destructiveHint": false, "idempotentHint": false } }]);
    if let Some(introduction) = introduction(method, &tool) {
        return said(&asked, introduction);
    }
    world.asked.send_modify(|all| all.push(asked.clone()));
    let task = |status: &str| {
        json!({ "taskId": "t-1", "status": status, "createdAt": "2026-01-01T00:00:00Z",
            "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": null, "pollIntervalMs": 500 })
    };
    let result =
        |text: &str| json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] });
    let with = |mut value: Value, name: &str, more: Value| {
        value[name] = more;
        value
    };
    let params = &asked["params"];
    let found = match (method, world.tool, params.get("inputResponses")) {
        ("tools/call", "build", _) => with(task("working"), "resultType", json!("task")),
        ("tools/call", _, None) => json!({ "resultType": "input_required", "requestState": STATE,
            "inputRequests": { "a": serde_json::from_str::<Value>(FORM).unwrap() } }),
        ("tools/call", _, Some(given)) => result(&format!("bought {}", given["a"]["content"]["n"])),
        ("tasks/get", ..) => {
            let now = *world.task.lock().unwrap();
            match now {
                Task::Working => with(task("working"), "resultType", json!("complete")),
                Task::Silent => std::future::pending().await,
                Task::Completed => {
                    let done = with(task("completed"), "resultType", json!("complete"));
                    with(done, "result", json!({ "content": [{ "type": "text", "text": "built" }] }))
                }
            }
        }
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    said(&asked, found)
}

fn said(asked: &Value, result: Value) -> Response {
    let body = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }).to_string();
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn serve(model: &Model, user: User) -> Server {
    let command = model.command(&user, &["serve", "--listen", "127.0.0.1:0"]);
    Server::spawn(user, command)
}

/// A model that calls the tool once and then replies.
fn model(tool: &'static str) -> Model {
    Model::start(vec![Turn::Call(vec![(tool, json!({}))]), Turn::Say("It is done.")])
}

async fn begin(server: &Server, key: &str) -> String {
    let body = json!({"message": "do it"});
    let sent = server.post("/api/v1/runs", key, &body).await.is(StatusCode::CREATED).body;
    sent["run"].as_str().unwrap().to_owned()
}

async fn wait(server: &Server, key: &str, run: &str) -> Value {
    server.get(&format!("/api/v1/runs/{run}/wait"), key).await.is(StatusCode::OK).body
}

/// Waits until a run with deferred calls has ended.
async fn ended(server: &Server, key: &str, run: &str) -> Value {
    for _ in 0..600 {
        let outcome = wait(server, key, run).await;
        if outcome["status"] == "done" {
            return outcome;
        }
        tokio::time::sleep(Duration::from_millis(50)).await; // tidy: sleep another process has to look
    }
    panic!("it never ends: {:#}", wait(server, key, run).await);
}

/// Waits until the newest thread's call was deferred `times` times.
async fn put_off(server: &Server, key: &str, times: usize) {
    let threads = server.get("/api/v1/threads", key).await.is(StatusCode::OK).body;
    let path = format!("/api/v1/threads/{}/events", threads["data"][0]["id"].as_str().unwrap());
    for _ in 0..600 {
        let events = server.get(&path, key).await.is(StatusCode::OK).body;
        if count(events["data"].as_array().unwrap(), "tool.deferred") >= times {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await; // tidy: sleep another process has to get there
    }
    panic!("it was not put off {times} times");
}

/// Checks that the store has one call with this single result, in one completed run.
fn ended_with(user: &User, text: &str) {
    let events = lines(&user.run(&["threads", "export"]).exits(0).out);
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
    let results: Vec<&Value> = of("tool.finished").iter().map(|event| &event["content"][0]["text"]).collect();
    assert_eq!(results, [text], "{events:#?}");
    assert_eq!((of("tool.in_doubt").len(), of("run.finished").len()), (0, 1), "{events:#?}");
}

// The test blocks on commands while the server handles their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_process_was_killed_while_its_server_asks_completes_with_the_exact_state() {
    for over_http in [true, false] {
        let (stage, model) = (Stage::start("buy").await, model("buy"));
        let (server, boss) = stage.used(&model).await;
        let run = begin(&server, &boss).await;
        let paused = wait(&server, &boss, &run).await;
        let asked = &paused["meta"]["interrupts"][0];
        let summary = "The server `shop` asks: How many?";
        assert_eq!(asked["kind"]["question"]["summary"], summary, "{paused:#}");
        let interrupt = asked["interrupt"].as_str().unwrap();
        let user = server.kill();
        assert_eq!(stage.asked("tools/call").len(), 1);

        let user = if over_http {
            let server = serve(&model, user);
            state(&server, &boss, "shop", "connected").await;
            assert_eq!(wait(&server, &boss, &run).await["status"], "paused");
            let reply = json!({"answer": {"kind": "reply", "values": {"n": 3}}});
            let path = format!("/api/v1/interrupts/{interrupt}/answer");
            server.post(&path, &boss, &reply).await.is(StatusCode::OK);
            let done = wait(&server, &boss, &run).await;
            assert_eq!((&done["status"], &done["data"]), (&json!("done"), &json!("It is done.")), "{done:#}");
            // A second answer is rejected.
            server.post(&path, &boss, &reply).await.is_problem(409, "closed");
            server.kill()
        } else {
            let given = ["approvals", "answer", interrupt, "--values", r#"{"n": 3}"#];
            model.run(&user, &given).exits(0);
            user
        };
        let calls = stage.asked("tools/call");
        assert_eq!(calls.len(), 2, "the call, and what it waited for: {calls:#?}");
        assert_eq!(calls[0].get("requestState"), None);
        assert_eq!((&calls[1]["name"], &calls[1]["requestState"]), (&json!("buy"), &json!(STATE)));
        assert_eq!(calls[1]["inputResponses"]["a"], json!({"action": "accept", "content": {"n": 3}}));
        ended_with(&user, "bought 3");
    }
}

// The test blocks on commands while the server handles their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_process_was_killed_while_its_server_works_gets_the_tasks_result() {
    for served in [true, false] {
        let (stage, model) = (Stage::start("build").await, model("build"));
        let (server, boss) = stage.used(&model).await;
        let run = begin(&server, &boss).await;
        // Between two polls: the call was deferred when its task began, and by the first poll.
        put_off(&server, &boss, 2).await;
        let user = server.kill();
        let before = stage.asked("tasks/get").len();
        stage.is(Task::Silent);
        let server = serve(&model, user);
        // During a poll.
        stage.until("tasks/get", before + 1).await;
        let user = server.kill();
        stage.is(Task::Completed);
        let user = if served {
            let server = serve(&model, user);
            let done = ended(&server, &boss, &run).await;
            assert_eq!((&done["status"], &done["data"]), (&json!("done"), &json!("It is done.")), "{done:#}");
            server.kill()
        } else {
            model.run(&user, &["resume", &run]).exits(0);
            user
        };
        assert_eq!(stage.asked("tools/call").len(), 1);
        assert_eq!(stage.asked("tasks/get").len(), before + 2);
        assert!(stage.asked("tasks/get").iter().all(|params| params["taskId"] == "t-1"));
        assert!(stage.asked("tasks/cancel").is_empty(), "a process that is killed gives nothing up");
        ended_with(&user, "built");
    }
}
