//! Streams of a thread and of a run: their start, end, content, and authorization.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use super::{Server, answer};
use crate::cli::{TASK, User};

/// One event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// Empty if a client cannot resume after this event.
    pub id: String,
    pub name: String,
    pub data: Value,
}

/// The client side of a server-sent event stream.
pub struct Events {
    response: Response,
    rest: Vec<u8>,
}

impl Events {
    /// Opens a stream.
    pub async fn open(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        let media_type = response.headers()["content-type"].clone();
        assert_eq!((response.status(), media_type.to_str().unwrap()), (StatusCode::OK, "text/event-stream"));
        Self::of(response)
    }

    /// Reads an open stream.
    pub fn of(response: Response) -> Self {
        Self { response, rest: Vec::new() }
    }

    /// The next event. Returns `None` after the stream has ended or was interrupted; a truncated event is dropped.
    pub async fn next(&mut self) -> Option<Told> {
        loop {
            if let Some(end) = self.rest.windows(2).position(|two| two == b"\n\n") {
                let block: Vec<u8> = self.rest.drain(..end + 2).collect();
                return Some(told(std::str::from_utf8(&block).unwrap()));
            }
            let bytes = self.response.chunk().await.ok().flatten()?;
            self.rest.extend_from_slice(&bytes);
        }
    }

    /// All events to the end.
    pub async fn all(mut self) -> Vec<Told> {
        let mut all = Vec::new();
        while let Some(told) = self.next().await {
            all.push(told);
        }
        all
    }
}

fn told(block: &str) -> Told {
    let field = |name: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.unwrap_or_default().to_owned()
    };
    Told { id: field("id"), name: field("event"), data: serde_json::from_str(&field("data")).unwrap() }
}

/// A server whose store has a finished run of the demo task, with a key, the thread and the run.
async fn done() -> (Arc<Server>, String, String, String) {
    let server = Server::start(&[]);
    let outcome = server.user.run(&["run", "--yes", "--json", TASK]).exits(0).json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (run, thread) = (text(&outcome["runId"]), text(&outcome["meta"]["threadId"]));
    let key = server.key(&[]);
    (Arc::new(server), key, thread, run)
}

impl Server {
    /// Sends SIGTERM to the server.
    fn stop(&self) {
        // SAFETY: a plain system call about a child that has not been waited for.
        let sent = unsafe { libc::kill(i32::try_from(self.process.id()).unwrap(), libc::SIGTERM) };
        assert_eq!(sent, 0);
    }

    /// A request for a stream.
    pub fn stream(&self, path: &str, key: &str) -> RequestBuilder {
        self.request(Method::GET, path).bearer_auth(key)
    }
}

// rows: WT-X5
#[tokio::test]
async fn a_finished_run_streams_from_any_position_to_its_outcome() {
    let (server, key, _, run) = done().await;
    let path = format!("/api/v1/runs/{run}/stream");
    let all = Events::open(server.stream(&path, &key)).await.all().await;
    let recorded = server.user.events();
    let events: Vec<&Value> = all.iter().filter(|told| !told.id.is_empty()).map(|told| &told.data).collect();
    let begins = recorded.iter().position(|event| event["type"] == "run.started").unwrap();
    assert_eq!(events, recorded[begins..].iter().collect::<Vec<_>>());
    let last = all.last().unwrap();
    assert_eq!((last.name.as_str(), &last.data["outcome"]["status"]), ("outcome", &json!("done")));
    for (at, told) in all.iter().enumerate().filter(|(_, told)| !told.id.is_empty()) {
        assert_eq!(told.id, format!("{}.0", told.data["seq"]));
        assert_eq!(told.name, told.data["type"]);
        // The header takes precedence over the query.
        let back = server.stream(&format!("{path}?after=0"), &key).header("last-event-id", &told.id);
        if told.data["seq"] == recorded.len() as u64 {
            assert_eq!(back.send().await.unwrap().status(), StatusCode::NO_CONTENT);
            continue;
        }
        let rest = Events::open(back).await.all().await;
        let rest = rest.iter().filter(|told| !told.id.is_empty());
        assert!(rest.eq(all[at + 1..].iter().filter(|told| !told.id.is_empty())));
    }
}

#[tokio::test]
async fn a_position_that_cannot_be_is_refused_with_words() {
    let (server, key, thread, _) = done().await;
    let head = server.user.events().len();
    for path in ["stream", "updates"] {
        let get = async |after: &str| {
            server.get(&format!("/api/v1/threads/{thread}/{path}?after={after}"), &key).await
        };
        let wrong = get("yesterday").await;
        wrong.is_problem(400, "bad_request");
        assert!(
            wrong.body["detail"].as_str().unwrap().starts_with("`yesterday` is no position"),
            "{wrong:?}"
        );
        let late = get("1000.2").await;
        late.is_problem(422, "invalid");
        let said = format!("the thread ends at event {head}, but `1000.2` is after it");
        assert_eq!(late.body["detail"], said);
    }
    server.get(&format!("/api/v1/threads/{thread}/updates?wait=3600"), &key).await.is_problem(422, "invalid");
}

#[tokio::test]
async fn a_stream_is_its_owners() {
    let (server, key, thread, run) = done().await;
    let other = server.add_user("other@example.com", &[]);
    let others = server.key(&["--user", &other]);
    for path in [
        format!("threads/{thread}/stream"),
        format!("threads/{thread}/updates"),
        format!("runs/{run}/stream"),
    ] {
        let path = format!("/api/v1/{path}");
        answer(server.request(Method::GET, &path)).await.is_problem(401, "unauthenticated");
        server.get(&path, &others).await.is_problem(404, "not_found");
    }
    let begins = server.stream(&format!("/api/v1/threads/{thread}/stream"), &key);
    assert_eq!(Events::open(begins).await.next().await.unwrap().name, "thread.created");
}

#[tokio::test]
async fn lines_of_json_say_the_same() {
    let (server, key, _, run) = done().await;
    let path = format!("/api/v1/runs/{run}/stream");
    let all = Events::open(server.stream(&path, &key)).await.all().await;
    let lines = server.stream(&path, &key).header("accept", "application/x-ndjson").send().await.unwrap();
    assert_eq!(lines.headers()["content-type"], "application/x-ndjson");
    let lines = crate::cli::lines(&lines.text().await.unwrap());
    let as_line = |told: &Told| {
        let mut line = without_time(told.data.clone());
        if !told.id.is_empty() {
            line["position"] = json!(told.id);
        }
        line
    };
    let lines: Vec<_> = lines.into_iter().map(without_time).collect();
    assert_eq!(lines, all.iter().map(as_line).collect::<Vec<_>>());
}

/// Removes the outcome's timestamp, which is the time of the request.
fn without_time(mut line: Value) -> Value {
    if let Some(outcome) = line.get_mut("outcome") {
        outcome["timestamp"] = Value::Null;
    }
    line
}

#[tokio::test]
async fn who_cannot_hold_a_stream_open_asks_again_and_again() {
    let (server, key, thread, _) = done().await;
    let path = format!("/api/v1/threads/{thread}/updates");
    let first = server.get(&path, &key).await.is(StatusCode::OK);
    let recorded = server.user.events();
    assert_eq!(first.body, json!({"updates": recorded, "next": format!("{}.0", recorded.len())}));
    let rest = server.get(&format!("{path}?after=3"), &key).await.is(StatusCode::OK);
    assert_eq!(rest.body["updates"], json!(recorded[3..]));
    // After the last event the list is empty, and the request waits only with a parameter.
    let next = format!("{path}?after={}", recorded.len());
    let none = server.get(&next, &key).await.is(StatusCode::OK);
    assert_eq!(none.body, json!({"updates": [], "next": format!("{}.0", recorded.len())}));
}

#[tokio::test]
async fn who_asks_before_something_happens_waits_for_it() {
    let server = Server::start(&[]);
    let outcome = server.user.run(&["run", "--json", TASK]).json();
    assert_eq!(outcome["status"], "paused");
    let thread = outcome["meta"]["threadId"].as_str().unwrap();
    let (key, head) = (server.key(&[]), server.user.events().len());
    let path = format!("/api/v1/threads/{thread}/updates?after={head}&wait=20");
    let cancel = async {
        server.user.run(&["cancel", outcome["runId"].as_str().unwrap()]).exits(0);
    };
    let (told, ()) = tokio::join!(server.get(&path, &key), cancel);
    let told = told.is(StatusCode::OK);
    assert_eq!(told.body["updates"][0]["seq"], head as u64 + 1, "{told:?}");
    // The stream of a waiting run ends too.
    let server = Server::start(&[]);
    let outcome = server.user.run(&["run", "--json", TASK]).json();
    let path = format!("/api/v1/runs/{}/stream", outcome["runId"].as_str().unwrap());
    let last = Events::open(server.stream(&path, &server.key(&[]))).await.all().await.pop().unwrap();
    assert_eq!((last.name.as_str(), &last.data["outcome"]["status"]), ("outcome", &json!("paused")));
}

#[tokio::test]
async fn a_server_that_stops_says_when_to_come_back() {
    let (server, key, thread, _) = done().await;
    let mut events = Events::open(server.stream(&format!("/api/v1/threads/{thread}/stream"), &key)).await;
    while events.next().await.unwrap().name != "thread.status" {}
    server.stop();
    let last = tokio::time::timeout(Duration::from_secs(5), events.all()).await.unwrap();
    assert_eq!(last.len(), 1);
    assert_eq!((last[0].name.as_str(), &last[0].data["retry_ms"]), ("server.stopping", &json!(1000)));
}

// rows: SK-ST5, CF-11
#[tokio::test]
async fn a_client_that_goes_away_leaves_the_run_alone_unless_it_says_otherwise() {
    let (_models, server) = super::skyflo::scripted("openai-chat/text-100-delay20ms", "").await;
    let key = server.key(&[]);
    for (query, status) in [("", "done"), ("?on_leave=keep", "done"), ("?on_leave=cancel", "cancelled")] {
        let run = server.post("/api/v1/runs", &key, &json!({"message": "talk"})).await.body["run"].clone();
        let path = format!("/api/v1/runs/{}", run.as_str().unwrap());
        let mut events = Events::open(server.stream(&format!("{path}/stream{query}"), &key)).await;
        while events.next().await.unwrap().name != "message.delta" {}
        drop(events);
        let ended = server.get(&format!("{path}/wait"), &key).await.is(StatusCode::OK).body;
        assert_eq!(ended["status"], status, "{query}");
        // Closing the stream of a finished run has no effect.
        let told = Events::open(server.stream(&format!("{path}/stream{query}"), &key)).await.all().await;
        assert_eq!(told.last().unwrap().name, "outcome");
    }
    let viewer = server.add_user("eve@example.com", &["--role", "viewer"]);
    let key = server.key(&["--user", &viewer]);
    let refused = server.stream("/api/v1/runs/run_0/stream?on_leave=cancel", &key);
    answer(refused).await.is_problem(403, "forbidden");
    let unknown = server.stream("/api/v1/runs/run_0/stream?on_leave=stop", &server.key(&[]));
    answer(unknown).await.is_problem(400, "bad_request");
}

#[tokio::test]
async fn a_late_subscriber_can_get_the_running_reply_as_one_snapshot() {
    let (_models, server) = super::skyflo::scripted("openai-chat/text-400-delay20ms", "").await;
    let key = server.key(&[]);
    let run = server.post("/api/v1/runs", &key, &json!({"message": "talk"})).await.body;
    let path = format!("/api/v1/threads/{}/stream", run["thread"].as_str().unwrap());
    let mut first = Events::open(server.stream(&path, &key)).await;
    let mut shown = String::new();
    for _ in 0..20 {
        let delta = loop {
            let told = first.next().await.unwrap();
            if told.name == "message.delta" {
                break told.data;
            }
        };
        shown.push_str(delta["text"].as_str().unwrap());
    }
    let mut late = Events::open(server.stream(&format!("{path}?backlog=snapshot"), &key)).await;
    let live = loop {
        let told = late.next().await.unwrap();
        if told.name.ends_with(".delta") || told.name == "message.snapshot" {
            break told;
        }
    };
    assert_eq!(live.name, "message.snapshot");
    assert!(live.data["parts"][0]["text"].as_str().unwrap().starts_with(&shown), "{live:?}\n{shown}");
    let unknown = server.stream(&format!("{path}?backlog=all"), &key);
    answer(unknown).await.is_problem(400, "bad_request");
}

#[tokio::test]
async fn a_silent_stream_beats_and_ends_once_its_reader_may_no_longer_read() {
    let user = User::new();
    user.configure("[server.limits]\nheartbeat_s = 1\nlook_again_s = 4\n");
    let server = Server::start_for(user, &[]);
    let (ann, _) = server.member("ann");
    let thread = ann.small_talk().await;
    let made =
        ann.post("/keys", json!({"name": "reader", "scopes": ["read"]})).await.is(StatusCode::CREATED).body;
    let path = format!("/api/v1/threads/{thread}/stream");
    let mut events = Events::open(server.stream(&path, made["secret"].as_str().unwrap())).await;
    let mut beats = 0;
    while beats < 2 {
        let told = events.next().await.expect("the stream stays open while the reader has access");
        beats += usize::from(told.name == "heartbeat");
        assert!(told.name != "heartbeat" || told.id.is_empty(), "a heartbeat has no position");
    }
    let key = format!("/keys/{}", made["id"].as_str().unwrap());
    ann.delete(&key).await.is(StatusCode::NO_CONTENT);
    let rest = tokio::time::timeout(Duration::from_secs(60), events.all()).await.expect("it ends");
    let last = rest.last().unwrap();
    assert_eq!((last.name.as_str(), &last.data["problem"]["status"]), ("error", &json!(401)), "{rest:#?}");
}

#[tokio::test]
async fn a_browsers_stream_stays_open_with_its_cookie() {
    let user = User::new();
    user.configure("[server.limits]\nheartbeat_s = 1\nlook_again_s = 1\n");
    let server = Server::start_for(user, &[]);
    let thread = server.admin().small_talk().await;
    let browser = super::auth::administrator(&server).await;
    let mut events =
        Events::open(browser.bare(Method::GET, &format!("/api/v1/threads/{thread}/stream"))).await;
    let mut beats = 0;
    while beats < 3 {
        let told = events.next().await.expect("the stream stays open while the reader has access");
        assert_ne!(told.name, "error", "{told:?}");
        beats += usize::from(told.name == "heartbeat");
    }
}
