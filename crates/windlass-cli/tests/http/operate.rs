//! Operation of a server: shutdown, proxies, rate limits, and hand-over to the next process.

use std::io::{Read, Write};
use std::process::Child;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::json;
use windlass_bench::server::ModelServer;

use super::raw::{connect, head, logged, logs, rest, with_limits};
use super::{Server, answer};
use crate::cli::{User, count};

/// Twenty steps that write files, each long enough to be interrupted.
const MODEL: &str = "openai-chat/files-20-ttft150ms";

/// Waits until a condition holds.
pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    for _ in 0..1_200 {
        if is() {
            return;
        }
        std::thread::sleep(Duration::from_millis(25)); // tidy: sleep it waits for the thing itself
    }
    panic!("it never was so: {what}");
}

/// Sends a signal.
pub fn signal(process: u32, signal: i32) {
    // SAFETY: a plain system call about a child that has not been waited for.
    assert_eq!(unsafe { libc::kill(i32::try_from(process).unwrap(), signal) }, 0);
}

/// A model server, which stops when this is dropped.
pub struct Models {
    _runtime: tokio::runtime::Runtime,
    pub server: ModelServer,
}

pub fn models() -> Models {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = runtime.block_on(ModelServer::start(0)).unwrap();
    Models { _runtime: runtime, server }
}

/// A user whose store has an unfinished run without a driver; the run may write without asking.
pub fn abandoned(models: &Models, model: &str) -> User {
    let user = User::new();
    user.run(&["auto-run", "everything"]).exits(0);
    let mut run = command(&user, models, model, &["run", "--stream-json", "begin: s3ntinel-message"]);
    let mut run: Child = run.spawn().unwrap();
    let started = std::io::BufRead::lines(std::io::BufReader::new(run.stdout.take().unwrap()))
        .map_while(Result::ok)
        .any(|line| line.contains("\"step.started\""));
    assert!(started);
    run.kill().unwrap();
    run.wait().unwrap();
    user
}

/// A command that uses the model server.
pub fn command(user: &User, models: &Models, model: &str, arguments: &[&str]) -> std::process::Command {
    let mut command = user.command(arguments);
    dress(&mut command, models, model);
    command
}

pub fn dress(command: &mut std::process::Command, models: &Models, model: &str) {
    command.env("OPENAI_API_KEY", "s3ntinel-key").env("WINDLASS_MODEL", model);
    command.env("WINDLASS_BASE_URL", models.server.base_url());
}

fn replies(user: &User) -> usize {
    count(&user.events(), "step.replied")
}

/// Asserts that the log has each line of the script once.
pub fn check_log(user: &User) {
    let lines = (1..19).filter(|turn| turn % 3 != 0).map(|turn| format!("line {turn}\n"));
    assert_eq!(user.read("log.txt"), lines.collect::<String>() + "END\n");
}

// rows: ZE-E3
#[test]
fn a_run_resumes_after_a_server_shutdown_and_repeats_no_effect() {
    let models = models();
    let mut user = abandoned(&models, MODEL);
    for wanted in [3, 8] {
        let server = logged(user, &[], |command| dress(command, &models, MODEL));
        until("it has got on", || replies(&server.user) >= wanted);
        let (ended, code) = server.end(libc::SIGTERM);
        assert_eq!(code, Some(143));
        user = ended;
        assert!(replies(&user) < 20, "the run was still going on");
    }
    let server = logged(user, &[], |command| dress(command, &models, MODEL));
    until("it has ended", || count(&server.user.events(), "run.finished") == 1);
    let events = server.user.events();
    check_log(&server.user);
    assert_eq!(count(&events, "step.replied"), 20, "no recorded reply was asked for again");
    assert_eq!(count(&events, "tool.started"), 19, "no call was started twice");
    assert_eq!(count(&events, "tool.in_doubt"), 0);
    let ends = events.iter().filter(|event| event["type"] == "tool.finished");
    let odd: Vec<_> = ends.filter(|event| !event["outcome"].is_null() || event["error"] == true).collect();
    assert!(odd.is_empty(), "{odd:#?}");
}

#[test]
fn a_client_that_does_not_read_holds_an_end_up_only_until_the_second_signal() {
    let server = with_limits("stall_timeout_s = 600\nstop_timeout_s = 600");
    let mut stream = connect(&server);
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let ask = head(&server, "GET /api/v1/openapi.json") + "\r\n";
    // Writes until all buffers on the way are full of responses.
    while stream.write_all(ask.as_bytes()).is_ok() {}
    signal(server.id(), libc::SIGTERM);
    logs(&server.user, 1, |line| line["message"] == "shutting down");
    signal(server.id(), libc::SIGTERM);
    let (_, code) = server.wait();
    assert_eq!(code, Some(143));
}

#[test]
fn a_server_that_ends_says_so_and_closes() {
    let server = with_limits("");
    let mut idle = connect(&server);
    let mut kept = connect(&server);
    kept.write_all((head(&server, "GET /api/v1/health") + "\r\n").as_bytes()).unwrap();
    let mut first = [0; 17];
    kept.read_exact(&mut first).unwrap();
    assert_eq!(first, *b"HTTP/1.1 200 OK\r\n");
    let (_, code) = server.end(libc::SIGTERM);
    assert_eq!((code, rest(&mut idle).as_str()), (Some(143), ""));
    assert!(rest(&mut kept).ends_with("{\"status\":\"ok\"}"), "the answer comes whole, then the end");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_counted_by_user_key_and_address() {
    let server = with_limits("requests_per_minute = 3\nanonymous_requests_per_minute = 2");
    let path = "/api/v1/threads/thr_none";
    let (one, two) = (server.key(&[]), server.key(&[]));
    for (key, left) in [(&one, 2), (&two, 1), (&two, 0)] {
        let found = server.get(path, key).await.is(StatusCode::NOT_FOUND);
        let said = found.headers["ratelimit"].to_str().unwrap();
        let wanted = ["user", "key"].map(|name| format!("\"{name}\";r={left};t="));
        assert!(wanted.iter().any(|wanted| said.starts_with(wanted)), "{said}");
        assert!(found.headers["ratelimit-policy"].to_str().unwrap().ends_with(";q=3;w=60"));
    }
    let refused = server.get(path, &one).await;
    refused.is_problem(429, "rate_limited");
    let after: u64 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=20).contains(&after), "{after}");
    let other = server.add_user("other@example.com", &[]);
    server.get(path, &server.key(&["--user", &other])).await.is_problem(404, "not_found");

    let anonymous = || answer(server.request(Method::GET, "/api/v1/version"));
    for _ in 0..2 {
        anonymous().await.is(StatusCode::OK);
    }
    anonymous().await.is_problem(429, "rate_limited");
    // An invalid cookie or key counts as anonymous. A valid key is limited by its user instead of the address.
    for (name, value) in [("cookie", "windlass_auth=x; auth_token=y"), ("authorization", "Bearer wls_x")] {
        let dressed = server.request(Method::GET, "/api/v1/version").header(name, value);
        answer(dressed).await.is_problem(429, "rate_limited");
    }
    let third = server.add_user("third@example.com", &[]);
    server.get("/api/v1/version", &server.key(&["--user", &third])).await.is(StatusCode::OK);
    // Health checks are not limited.
    answer(server.request(Method::GET, "/api/v1/health")).await.is(StatusCode::OK);
    logs(&server.user, 4, |line| line["problem"] == "rate_limited");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_cannot_be_tried_without_end() {
    let server = with_limits("");
    let known = server.key(&[]);
    for _ in 0..30 {
        server.get("/api/v1/threads/t", "wls_guess").await.is_problem(401, "unauthenticated");
    }
    let mut guess = server.get("/api/v1/threads/t", "wls_guess").await;
    while guess.status == 401 {
        // One more attempt is allowed every two seconds.
        guess = server.get("/api/v1/threads/t", "wls_guess").await;
    }
    guess.is_problem(429, "rate_limited");
    // A valid key is accepted even if other clients guess keys from the same address.
    server.get("/api/v1/threads/t", &known).await.is_problem(404, "not_found");
}

#[test]
fn one_address_does_not_take_all_connections() {
    let server = with_limits("connections_per_address = 3");
    let ask = head(&server, "GET /api/v1/health") + "connection: close\r\n\r\n";
    let held: Vec<_> = (0..3).map(|_| connect(&server)).collect();
    // Connections are accepted in order, so later ones are closed without a response.
    for _ in 0..5 {
        assert_eq!(super::raw::say(&server, ask.as_bytes()), "");
    }
    logs(&server.user, 1, |line| line["message"] == "too many connections from one address");
    drop(held);
    until("there is room again", || super::raw::say(&server, ask.as_bytes()).starts_with("HTTP/1.1 200"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_is_trusted_names_the_client() {
    let limits = "[server.limits]\nanonymous_requests_per_minute = 1\n";
    let user = User::new();
    user.configure(&format!("[server]\nproxies = ['127.0.0.0/8']\n{limits}"));
    let server = Server::start_for(user, &[]);
    let from = |client: &'static str| {
        answer(server.request(Method::GET, "/api/v1/version").header("x-forwarded-for", client))
    };
    from("203.0.113.1").await.is(StatusCode::OK);
    from("203.0.113.2").await.is(StatusCode::OK);
    from("203.0.113.1").await.is_problem(429, "rate_limited");
    // An address that the client itself prepended is ignored.
    from("198.51.100.7, 203.0.113.1").await.is_problem(429, "rate_limited");

    let user = User::new();
    user.configure(limits);
    let server = Server::start_for(user, &[]);
    let from = |client: &'static str| {
        answer(server.request(Method::GET, "/api/v1/version").header("x-forwarded-for", client))
    };
    from("203.0.113.1").await.is(StatusCode::OK);
    from("203.0.113.2").await.is_problem(429, "rate_limited");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_that_are_listed_may_use_the_server() {
    let user = User::new();
    user.configure("[server]\ncors = ['https://desk.example.com']\n");
    let server = Server::start_for(user, &[]);
    let page = |method: Method| {
        server.request(method, "/api/v1/version").header("origin", "https://desk.example.com")
    };
    let found = answer(page(Method::GET)).await.is(StatusCode::OK);
    assert_eq!(found.headers["access-control-allow-origin"], "https://desk.example.com");
    assert_eq!(found.headers["vary"], "origin");
    let asked = page(Method::OPTIONS).header("access-control-request-method", "POST");
    let found = answer(asked).await.is(StatusCode::NO_CONTENT);
    assert!(found.headers["access-control-allow-headers"].to_str().unwrap().contains("authorization"));
    let other = server.request(Method::GET, "/api/v1/version").header("origin", "https://desk.example.org");
    let refused = answer(other).await;
    refused.is_problem(403, "forbidden");
    assert!(!refused.headers.contains_key("access-control-allow-origin"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_has_so_many_streams_at_a_time() {
    let server = with_limits("streams_per_user = 2");
    let hello = json!([{"id": "m1", "role": "user", "content": "hello"}]);
    let dialects = [
        ("/agui", json!({"threadId": "t1", "runId": "r1", "messages": hello})),
        ("/zeus/api/agent/invoke", json!({"query": "hello"})),
        ("/zeus/api/agent/resume", json!({"session_id": "s"})),
        ("/skyflo/api/v1/agent/chat", json!({"messages": hello})),
        ("/skillchat/api/ai/chat/stream", json!({"message": "hello"})),
    ];
    let (bob, _) = server.member("bob");
    for (name, format) in [("ann", "text/event-stream"), ("cat", "application/x-ndjson")] {
        let (user, _) = server.member(name);
        let (thread, run, _) = user.asked().await;
        let path = format!("/threads/{thread}/stream");
        let open = || user.request(Method::GET, &path).header("accept", format).send();
        let streams = [open().await.unwrap(), open().await.unwrap()];
        assert!(streams.iter().all(|stream| stream.status() == StatusCode::OK), "{streams:#?}");
        // A response that is not a rejection would never end.
        let refuse = async |what: &str, request: reqwest::RequestBuilder| {
            let refused = request.send().await.unwrap();
            assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS, "{what}");
        };
        for format in ["text/event-stream", "application/x-ndjson"] {
            refuse(format, user.request(Method::GET, &path).header("accept", format)).await;
        }
        // A rejected request does not cancel, start or answer anything.
        let leaves = format!("/runs/{run}/stream?on_leave=cancel");
        refuse(&leaves, user.request(Method::GET, &leaves)).await;
        for (path, body) in &dialects {
            refuse(path, server.request(Method::POST, path).bearer_auth(&user.key).json(body)).await;
        }
        assert_eq!(user.wait(&run).await["status"], "paused", "{format}");
        let runs = user.get("/runs").await.is(StatusCode::OK).body;
        assert_eq!(runs["data"].as_array().unwrap().len(), 2, "{runs:#}");
        // Other users are not limited.
        let own = bob.small_talk().await;
        let path = format!("/threads/{own}/stream");
        assert_eq!(bob.request(Method::GET, &path).send().await.unwrap().status(), StatusCode::OK);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_has_so_many_runs_at_a_time() {
    let server = with_limits("runs_per_user = 1");
    let (ann, bob) = (server.member("ann").0, server.member("bob").0);
    let task = serde_json::json!({"message": crate::cli::TASK});
    let first = ann.post("/runs", task.clone()).await.is(StatusCode::CREATED);
    ann.post("/runs", task.clone()).await.is_problem(429, "too_many_runs");
    bob.post("/runs", task).await.is(StatusCode::CREATED);
    // A message to an existing thread does not start another run.
    let more = format!("/threads/{}/messages", first.body["thread"].as_str().unwrap());
    ann.post(&more, serde_json::json!({"message": "and faster"})).await.is(StatusCode::ACCEPTED);
    let cancel = format!("/runs/{}/cancel", first.body["run"].as_str().unwrap());
    ann.post(&cancel, serde_json::json!({})).await;
    logs(&server.user, 1, |line| line["problem"] == "too_many_runs");
}
