//! The Zeus interface as used by its frontend: golden exchanges with the real binary, and tests that those cannot
//! express.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use windlass::testing::provider::ProviderServer;
use windlass_bench::server::ModelServer;

use super::exchange::{check, frames};
use super::{Answer, Server};
use crate::cli::User;
use crate::cli::model::{Model, Turn};

const INVOKE: &str = "/zeus/api/agent/invoke";
const RESUME: &str = "/zeus/api/agent/resume";

/// A server with a scripted model.
fn scripted(turns: Vec<Turn>) -> Server {
    let user = User::new();
    let command = Model::start(turns).command(&user, &["serve", "--listen", "127.0.0.1:0"]);
    Server::spawn(user, command)
}

fn write(path: &str) -> (&'static str, Value) {
    ("Write", json!({"file_path": path, "content": "x"}))
}

/// A run that requests approval of two file writes and then replies.
fn writer() -> Server {
    scripted(vec![Turn::Call(vec![write("a.md"), write("b.md")]), Turn::Say("Both are written.")])
}

// rows: ZE-E1, ZE-E2, ZE-E3, ZE-E7, ZE-E9, ZE-E14, ZE-S1, ZE-S2, ZE-S3, ZE-S4, ZE-S6, ZE-H3, ZE-H8
#[tokio::test]
async fn a_task_with_approvals() {
    check(&writer(), "zeus", "a_task_with_approvals").await;
}

// rows: ZE-H4, ZE-H6, ZE-E14
#[tokio::test]
async fn calls_are_rejected_modified_and_run_out_of_time() {
    let server = scripted(vec![
        Turn::Call(vec![write("a.md"), write("b.md"), write("c.md")]),
        Turn::Say("I leave it."),
    ]);
    check(&server, "zeus", "calls_are_rejected_modified_and_run_out_of_time").await;
    let told = server.user.run(&["threads", "export"]).exits(0).out;
    assert!(told.contains("Do not retry it"), "{told}");
    assert!(told.contains("Their reason: no answer in time"), "{told}");
    assert!(told.contains("Say what you did not do"), "{told}");
}

// rows: ZE-S8, CF-7
#[tokio::test]
async fn the_names_of_the_reference() {
    check(&writer(), "zeus", "the_names_of_the_reference").await;
}

// rows: ZE-E13, ZE-E15, ZE-E4
#[tokio::test]
async fn what_cannot_be_had_is_refused_by_name() {
    let server = Server::start(&[]);
    check(&server, "zeus", "what_cannot_be_had_is_refused_by_name").await;
    // Nothing of the rejected requests was recorded, in particular no secret.
    let rows = server.get("/api/v1/threads", &server.key(&[])).await.is(StatusCode::OK).body;
    assert_eq!(rows["data"], json!([]));
}

// rows: ZE-X9
#[tokio::test]
async fn sessions_of_one_name_do_not_meet() {
    let server = scripted(vec![Turn::Call(vec![write("a.md")]), Turn::Say("Done.")]);
    check(&server, "zeus", "sessions_of_one_name_do_not_meet").await;
}

// rows: ZE-S5, ZE-X2, ZE-X3, ZE-X4, ZE-X10
#[tokio::test]
async fn a_provider_that_fails_is_explained() {
    let provider = ProviderServer::start().await.unwrap();
    for (scenario, name) in
        [("oai-x-413", "a_context_that_is_too_long"), ("oai-x-401", "a_key_that_is_refused")]
    {
        let url = format!("{}/v1", provider.url(scenario));
        let server = Server::start(&["--model", "openai-compatible/model-x", "--base-url", &url]);
        check(&server, "zeus", name).await;
    }
}

// rows: ZE-X8
#[tokio::test]
async fn steps_run_out() {
    let look = || Turn::Call(vec![("Glob", json!({"pattern": "*"}))]);
    let user = User::new();
    let model = Model::start(vec![look(), look(), look()]);
    let mut command = model.command(&user, &["serve", "--listen", "127.0.0.1:0"]);
    command.args(["--max-steps", "2"]);
    let server = Server::spawn(user, command);
    let said = invoke(&server, &server.key(&[]), json!({"message": "go"})).await;
    let (name, data) = said.last().unwrap().clone();
    assert_eq!((name.as_str(), &data["error_code"]), ("error", &json!("ERR_MAX_TURNS")), "{said:#?}");
    assert_eq!(data["error"], "the run reached its step limit");
}

async fn post(server: &Server, key: &str, path: &str, body: &Value) -> Answer {
    server.post(path, key, body).await
}

async fn invoke(server: &Server, key: &str, body: Value) -> Vec<(String, Value)> {
    let answer = post(server, key, INVOKE, &body).await.is(StatusCode::OK);
    frames(answer.body.as_str().unwrap())
}

// rows: ZE-E11, ZE-S9
#[tokio::test]
async fn a_session_without_a_name_gets_one() {
    let server = Server::start(&[]);
    let answer = post(&server, &server.key(&[]), INVOKE, &json!({"message": "hello"})).await;
    assert_eq!(answer.headers["content-type"], "text/event-stream; charset=utf-8");
    assert_eq!(answer.headers["x-accel-buffering"], "no");
    let name = answer.headers["x-session-id"].to_str().unwrap().to_owned();
    let digits = name.strip_prefix("session_").unwrap();
    assert!(digits.len() == 12 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
    let said = frames(answer.is(StatusCode::OK).body.as_str().unwrap());
    assert_eq!(said.last().unwrap().1["session_id"], name);
}

// rows: ZE-X5, ZE-O1, ZE-X10
#[tokio::test]
async fn without_credit_nothing_is_sent() {
    let user = User::new();
    user.configure("[[budget]]\nper = \"user\"\nunit = \"usd\"\ncap = 0\n");
    let server = Server::start_for(user, &[]);
    let answer = post(&server, &server.key(&[]), INVOKE, &json!({"message": "hello"})).await;
    answer.is_problem(403, "insufficient_credit");
    let anonymous =
        super::answer(server.request(Method::POST, INVOKE).json(&json!({"message": "hello"}))).await;
    anonymous.is_problem(401, "unauthenticated");
}

/// Reads a stream up to an event with this name.
async fn read_to(response: &mut reqwest::Response, name: &str) -> String {
    let mut seen = String::new();
    while !seen.contains(&format!("event: {name}\n")) {
        let more = response.chunk().await.unwrap();
        seen.push_str(std::str::from_utf8(&more.expect("more events")).unwrap());
    }
    seen
}

// rows: ZE-P7, ZE-P8, ZE-X10, CF-11
#[tokio::test]
async fn a_run_outlives_its_stream_and_the_next_message_waits_for_it() {
    let models = ModelServer::start(0).await.unwrap();
    let url = models.base_url();
    let server = Server::start(&["--model", "openai-compatible/text-60-delay20ms", "--base-url", &url]);
    let key = server.key(&[]);
    let first = server.request(Method::POST, INVOKE).bearer_auth(&key);
    let mut first = first.json(&json!({"message": "one", "session_id": "s"})).send().await.unwrap();
    let run = first.headers()["x-run-id"].to_str().unwrap().to_owned();
    read_to(&mut first, "text").await;
    drop(first);
    // The stream of the queued message contains its own run only.
    let said = invoke(&server, &key, json!({"message": "two", "session_id": "s"})).await;
    let names: Vec<&str> = said.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["text", "token_usage", "complete"], "{said:#?}");
    let outcome = server.get(&format!("/api/v1/runs/{run}/wait"), &key).await.is(StatusCode::OK).body;
    assert_eq!(outcome["status"], "done", "{outcome:#}");
}

// rows: ZE-P7, ZE-P8
#[tokio::test]
async fn a_stopped_run_keeps_what_it_said_and_sends_nothing_after_it() {
    let models = ModelServer::start(0).await.unwrap();
    let url = models.base_url();
    let server = Server::start(&["--model", "openai-compatible/text-400-delay20ms", "--base-url", &url]);
    let key = server.key(&[]);
    let send = |message: &str| {
        let request = server.request(Method::POST, INVOKE).bearer_auth(&key);
        request.json(&json!({"message": message, "session_id": "s"})).send()
    };
    let mut first = send("one").await.unwrap();
    let run = first.headers()["x-run-id"].to_str().unwrap().to_owned();
    let begun = read_to(&mut first, "text").await;
    let second = send("two").await.unwrap();
    server.post(&format!("/api/v1/runs/{run}/cancel"), &key, &json!({})).await;
    let first = frames(&format!("{begun}{}", first.text().await.unwrap()));
    let (name, ended) = first.last().unwrap();
    assert_eq!((name.as_str(), &ended["status"]), ("complete", &json!("stopped")), "{first:#?}");
    assert!(ended["content"].as_str().unwrap().contains("tok0000"), "{ended}");
    let second = frames(&second.text().await.unwrap());
    let (name, left) = second.last().unwrap();
    assert_eq!((name.as_str(), &left["error_code"]), ("error", &json!("ERR_QUEUED")), "{second:#?}");
}

// rows: ZE-X1
#[tokio::test]
async fn a_message_that_is_too_long_is_refused() {
    let server = Server::start(&[]);
    let answer = post(&server, &server.key(&[]), INVOKE, &json!({"message": "x".repeat(32_769)})).await;
    answer.is_problem(422, "invalid");
    let resume =
        json!({"session_id": "s", "tool_call_results": [{"tool_call_id": "x", "decision": "approved"}]});
    post(&server, &server.key(&[]), RESUME, &resume).await.is_problem(404, "not_found");
}
