//! The skills-chat interface: golden exchanges with the real binary, and tests that those cannot express.

mod sign_in;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use windlass::testing::provider::ProviderServer;
use windlass_bench::server::ModelServer;

use super::exchange::{check, frames};
use super::{Answer, Server, answer};
use crate::cli::User;
use crate::cli::model::{Model, Turn};

const CHAT: &str = "/skillchat/api/ai/chat";

fn server(user: User, turns: Vec<Turn>) -> Server {
    let command = Model::start(turns).command(&user, &["serve", "--listen", "127.0.0.1:0"]);
    Server::spawn(user, command)
}

fn scripted(turns: Vec<Turn>) -> Server {
    server(User::new(), turns)
}

fn ask(checkpoint: &str) -> (&'static str, Value) {
    let asked = json!({
        "checkpoint": checkpoint, "summary": "Go on?", "params": {"difficulty": "hard"}, "options": ["yes", "later"],
        "allow_free_input": true,
    });
    ("request_human_approval", asked)
}

// rows: WT-E1, WT-E2, WT-E6, WT-L3
#[tokio::test]
async fn a_chat_and_its_session() {
    let server = scripted(vec![Turn::Say("Hello.\n\nHow are you?"), Turn::Say("Good."), Turn::Say("Yes.")]);
    check(&server, "skillchat", "a_chat_and_its_session").await;
    let told = server.user.run(&["threads", "export"]).exits(0).out;
    assert!(told.contains("[assistant] I am the tutor"), "{told}");
}

// rows: WT-E3, WT-H1, WT-H5, WT-H6, WT-H7, WT-H8, WT-H9, WT-X1, WT-X4
#[tokio::test]
async fn questions_one_after_another() {
    let write = ("Write", json!({"file_path": "a.md", "content": "x"}));
    // The calls after a question run after its answer.
    let server = scripted(vec![Turn::Call(vec![ask("one"), write, ask("two")]), Turn::Say("All done.")]);
    check(&server, "skillchat", "questions_one_after_another").await;
    let told = server.user.run(&["threads", "export"]).exits(0).out;
    assert!(told.contains(r#"\"overrides\":{\"difficulty\":\"easy\"}"#), "{told}");
    assert!(told.contains(r#"\"cancelled\":true"#), "{told}");
}

// rows: WT-H10, WT-X2
#[tokio::test]
async fn a_checkpoint_that_is_not_there() {
    let server = scripted(vec![Turn::Call(vec![ask("one")]), Turn::Say("Done.")]);
    check(&server, "skillchat", "a_checkpoint_that_is_not_there").await;
}

// rows: WT-X3
#[tokio::test]
async fn a_question_outlives_the_server() {
    let model = Model::start(vec![Turn::Call(vec![ask("one")]), Turn::Say("Done.")]);
    let user = User::new();
    let first = Server::spawn_with(&model, user);
    let key = first.key(&[]);
    let asked = first.post(CHAT, &key, &json!({"message": "go", "session_id": "s"})).await.is(StatusCode::OK);
    let checkpoint = asked.body["hitl"]["checkpoint_id"].clone();
    let second = Server::spawn_with(&model, first.kill());
    let said = json!({"session_id": "s", "checkpoint_id": checkpoint, "response": {"approved": true}});
    let done = second.post(&format!("{CHAT}/hitl-response"), &key, &said).await.is(StatusCode::OK).body;
    assert_eq!(done["message"]["content"], "Done.");
}

// rows: WT-H4, WT-H10
#[tokio::test]
async fn a_question_that_has_expired_is_not_answered() {
    let user = User::new();
    user.configure("[approvals]\nquestion_timeout = \"1s\"\n");
    let server = server(user, vec![Turn::Call(vec![ask("one")]), Turn::Say("Then not.")]);
    let key = server.key(&[]);
    let asked =
        server.post(CHAT, &key, &json!({"message": "go", "session_id": "s"})).await.is(StatusCode::OK);
    let runs = server.get("/api/v1/runs", &key).await.is(StatusCode::OK).body;
    let run = runs["data"][0]["id"].as_str().unwrap_or_else(|| panic!("{runs:#}"));
    // The question expires, and the run continues.
    while server.get(&format!("/api/v1/runs/{run}/wait"), &key).await.body["status"] == "paused" {
        tokio::time::sleep(std::time::Duration::from_millis(25)).await; // tidy: sleep it waits for the thing itself
    }
    let checkpoint = &asked.body["hitl"]["checkpoint_id"];
    let said = json!({"session_id": "s", "checkpoint_id": checkpoint, "response": {"approved": true}});
    let late = server.post(&format!("{CHAT}/hitl-response"), &key, &said).await;
    let words = json!({"code": "invalid_request", "message": "Checkpoint expired or not found."});
    assert_eq!((late.status, late.body), (404, json!({"detail": words})));
}

// rows: WT-E8, WT-E5, WT-E7, WT-E4
#[tokio::test]
async fn what_makes_no_sense_and_what_is_not_here() {
    check(&Server::start(&[]), "skillchat", "what_makes_no_sense_and_what_is_not_here").await;
}

#[tokio::test]
async fn sessions_of_one_name_do_not_meet() {
    let server = scripted(vec![Turn::Say("Hello.")]);
    check(&server, "skillchat", "sessions_of_one_name_do_not_meet").await;
}

// rows: WT-E8, WT-L12
#[tokio::test]
async fn a_provider_that_refuses() {
    let provider = ProviderServer::start().await.unwrap();
    let url = format!("{}/v1", provider.url("oai-x-401"));
    let server = Server::start(&["--model", "openai-compatible/model-x", "--base-url", &url]);
    check(&server, "skillchat", "a_provider_that_refuses").await;
}

// rows: WT-L12, WT-H7
#[tokio::test]
async fn a_provider_that_refuses_after_an_answer() {
    let server = scripted(vec![Turn::Call(vec![ask("one")]), Turn::Refuse("no")]);
    let key = server.key(&[]);
    let asked =
        server.post(CHAT, &key, &json!({"message": "go", "session_id": "s"})).await.is(StatusCode::OK);
    let checkpoint = &asked.body["hitl"]["checkpoint_id"];
    let no = json!({"session_id": "s", "checkpoint_id": checkpoint, "response": {"approved": false}});
    let done = server.post(&format!("{CHAT}/hitl-response"), &key, &no).await.is(StatusCode::OK).body;
    assert_eq!(done["message"]["content"], "Done. Anything else?", "{done:#}");
    assert_eq!((&done["model_fallback"], &done["error"]["code"]), (&json!(true), &json!("ERR_AUTH")));
    let told = server.user.run(&["threads", "export"]).exits(0).out;
    assert!(told.contains(r#"{\"approved\":false}"#), "{told}");
}

// rows: WT-L4, WT-L11, CF-4
#[tokio::test]
async fn out_of_steps_there_is_a_plain_answer() {
    let models = ModelServer::start(0).await.unwrap();
    let url = models.base_url();
    let model = "openai-compatible/loop-9";
    let server = Server::start(&["--model", model, "--base-url", &url, "--max-steps", "2"]);
    let key = server.key(&[]);
    let mut said = server.post(CHAT, &key, &json!({"message": "go", "session_id": "s"})).await.body;
    // Each of its two steps makes a call that requires approval.
    for _ in 0..2 {
        let checkpoint = &said["hitl"]["checkpoint_id"];
        let yes = json!({"session_id": "s", "checkpoint_id": checkpoint, "response": {"approved": true}});
        said = server.post(&format!("{CHAT}/hitl-response"), &key, &yes).await.is(StatusCode::OK).body;
    }
    let content = said["message"]["content"].as_str().unwrap();
    assert!(content.contains("tok0000") && said["model_fallback"] == true, "{said:#}");
}

async fn chat_in(server: &Server, zone: &str) -> Answer {
    let request = server.request(Method::POST, CHAT).bearer_auth(server.key(&[]));
    // A time zone in the body is ignored.
    let body = json!({"message": "what time is it?", "user_timezone": "Asia/Tokyo"});
    answer(request.header("x-user-timezone", zone).json(&body)).await
}

// rows: WT-E9
#[tokio::test]
async fn the_time_zone_stands_in_a_header() {
    let server = scripted(vec![Turn::Say("Late.")]);
    chat_in(&server, "Asia/Kolkata").await.is(StatusCode::OK);
    let started = server.user.events().into_iter().find(|event| event["type"] == "run.started").unwrap();
    assert_eq!(started["options"]["utc_offset_minutes"], 330, "{started:#}");
    let wrong = chat_in(&server, "Mars/Olympus").await;
    assert_eq!((wrong.status, &wrong.body["detail"]["code"]), (400, &json!("invalid_request")));
}

// rows: WT-E2, WT-X5, CF-11
#[tokio::test]
async fn fragments_come_as_the_model_says_them_and_the_run_outlives_its_stream() {
    let models = ModelServer::start(0).await.unwrap();
    let url = models.base_url();
    let server = Server::start(&["--model", "openai-compatible/text-60-delay20ms", "--base-url", &url]);
    let key = server.key(&[]);
    let path = format!("{CHAT}/stream");
    let stream = server.request(Method::POST, &path).bearer_auth(&key);
    let mut stream = stream.json(&json!({"message": "talk", "session_id": "s"})).send().await.unwrap();
    let first = stream.chunk().await.unwrap().unwrap();
    let first = std::str::from_utf8(&first).unwrap();
    assert!(first.starts_with("event: token\n") && !first.contains("tok0059"), "{first}");
    drop(stream);
    let next =
        server.post(&path, &key, &json!({"message": "and?", "session_id": "s"})).await.is(StatusCode::OK);
    let names: Vec<String> = frames(next.body.as_str().unwrap()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["token", "mood", "done"]);
    let session = server.get("/skillchat/api/sessions/s", &key).await.is(StatusCode::OK).body;
    let roles: Vec<&str> = session["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
}

impl Server {
    /// Starts a server with this model over a user's store.
    fn spawn_with(model: &Model, user: User) -> Self {
        let command = model.command(&user, &["serve", "--listen", "127.0.0.1:0"]);
        Self::spawn(user, command)
    }
}
