//! The Skyflo interface as used by its Command Center: golden exchanges with the real binary, and tests that those
//! cannot express.

mod accounts;
mod play;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use windlass::testing::provider::ProviderServer;
use windlass_bench::server::ModelServer;

use self::play::{API, check};
use super::{Server, answer};
use crate::cli::{TASK, User};

const CONVERSATION: &str = "7f1b2c3d-0000-4000-8000-000000000001";

/// A server with a conversation whose folder has the demo model's input file.
fn with_data() -> Server {
    let server = Server::start(&[]);
    let folder = server.user.store().join("files/default/local/workspace").join(CONVERSATION);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(server.user.folder().join("data.csv"), folder.join("data.csv")).unwrap();
    server
}

// rows: SK-R1, SK-R2, SK-R4, SK-R6, SK-A9, SK-E27, SK-P2, SK-P3, SK-P5, SK-X10, SK-X14
#[tokio::test]
async fn a_task_with_an_approval() {
    check(&with_data(), "a_task_with_an_approval").await;
}

// rows: SK-X9
#[tokio::test]
async fn a_denial_with_its_reason() {
    let server = with_data();
    check(&server, "a_denial_with_its_reason").await;
    let told = server.user.run(&["threads", "export"]).exits(0).out;
    assert!(told.contains("Their reason: keep the file as it is"), "{told}");
}

// rows: SK-R4, SK-R5, SK-R6
#[tokio::test]
async fn conversations_are_listed_and_changed() {
    check(&Server::start(&[]), "conversations_are_listed_and_changed").await;
}

// rows: SK-X7, SK-P11
#[tokio::test]
async fn data_of_other_users_is_hidden() {
    check(&Server::start(&[]), "data_of_other_users_is_hidden").await;
}

// rows: SK-R1
#[tokio::test]
async fn a_chat_that_makes_no_sense_is_refused() {
    check(&Server::start(&[]), "a_chat_that_makes_no_sense_is_refused").await;
}

// rows: SK-R3, SK-R11
#[tokio::test]
async fn tools_and_health() {
    let server = Server::start(&[]);
    check(&server, "tools_and_health").await;
    let tools = server.get(&format!("{API}/agent/tools"), &server.key(&[])).await.is(StatusCode::OK).body;
    let glob = tools.as_array().unwrap().iter().find(|tool| tool["name"] == "Glob").unwrap();
    let hints = json!({"readOnlyHint": true, "destructiveHint": false, "idempotentHint": false, "openWorldHint": false});
    assert_eq!(*glob, json!({"name": "Glob", "title": "Glob", "annotations": hints, "tags": []}));
}

// rows: SK-E25, SK-G19
#[tokio::test]
async fn steps_run_out() {
    let (_models, server) = scripted("openai-chat/loop-9", "[agent.limits]\nmax_steps = 2\n").await;
    check(&server, "steps_run_out").await;
}

// rows: SK-L8
#[tokio::test]
async fn a_provider_that_refuses() {
    let provider = ProviderServer::start().await.unwrap();
    let url = format!("{}/v1", provider.url("oai-x-401"));
    let server = Server::start(&["--model", "openai-compatible/model-x", "--base-url", &url]);
    check(&server, "a_provider_that_refuses").await;
}

// rows: SK-R1
#[tokio::test]
async fn a_message_that_is_sent_again_without_an_answer_is_shown_once() {
    let provider = ProviderServer::start().await.unwrap();
    let url = format!("{}/v1", provider.url("oai-x-401"));
    let server = Server::start(&["--model", "openai-compatible/model-x", "--base-url", &url]);
    let key = server.key(&[]);
    for text in ["Say hello", "Say hello", "And now?"] {
        server.post(&format!("{API}/agent/chat"), &key, &chat(text)).await.is(StatusCode::OK);
    }
    let path = format!("{API}/conversations/{CONVERSATION}");
    let messages = server.get(&path, &key).await.is(StatusCode::OK).body["messages"].clone();
    let said: Vec<_> = messages.as_array().unwrap().iter().map(|it| (&it["type"], &it["content"])).collect();
    let [user, hello, now] = ["user", "Say hello", "And now?"].map(Value::from);
    assert_eq!(said, [(&user, &hello), (&user, &now)], "{messages:#}");
}

/// A server whose model plays a script.
pub async fn scripted(model: &str, configuration: &str) -> (ModelServer, Server) {
    let models = ModelServer::start(0).await.unwrap();
    let user = User::new();
    user.configure(configuration);
    let mut command = user.command(&["serve", "--listen", "127.0.0.1:0", "--model", model]);
    command.args(["--base-url", &models.base_url()]).env("OPENAI_API_KEY", "none");
    (models, Server::spawn(user, command))
}

/// A server whose runs take some seconds.
async fn slow() -> (ModelServer, Server) {
    scripted("openai-chat/text-400-delay20ms", "").await
}

fn chat(text: &str) -> Value {
    json!({"conversation_id": CONVERSATION, "messages": [{"role": "user", "content": text}]})
}

/// Reads a stream up to an event with this name. Returns everything read so far.
async fn read_to(response: &mut reqwest::Response, name: &str) -> String {
    let mut seen = String::new();
    while !seen.contains(&format!("event: {name}\n")) {
        let more = response.chunk().await.unwrap();
        seen.push_str(std::str::from_utf8(&more.expect("more events")).unwrap());
    }
    seen
}

fn run_id(stream: &str) -> String {
    let data = stream.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    serde_json::from_str::<Value>(data).unwrap()["run_id"].as_str().unwrap().to_owned()
}

// rows: SK-ST1, SK-ST4, SK-X8, SK-X13
#[tokio::test]
async fn a_run_is_stopped_by_the_id_that_ready_gave() {
    let (_models, server) = slow().await;
    let key = server.key(&[]);
    let request = server.request(Method::POST, &format!("{API}/agent/chat")).bearer_auth(&key);
    let mut stream = request.json(&chat("talk")).send().await.unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream; charset=utf-8");
    assert_eq!(stream.headers()["cache-control"], "no-cache");
    assert_eq!(stream.headers()["x-accel-buffering"], "no");
    let run = run_id(&read_to(&mut stream, "token").await);
    let stop = json!({"conversation_id": CONVERSATION, "run_id": run});
    let stopped = server.post(&format!("{API}/agent/stop"), &key, &stop).await.is(StatusCode::OK);
    assert_eq!(stopped.body, json!({"status": "stopped", "conversation_id": CONVERSATION, "run_id": run}));
    let rest = stream.text().await.unwrap();
    let last = rest.trim_end().rsplit("\n\n").next().unwrap();
    assert!(last.starts_with("event: workflow_complete\n"), "{rest}");
    assert!(last.contains(r#""result":{"done":true},"status":"stopped""#), "{rest}");
    // Stopping a finished run changes nothing, and an unknown run is rejected.
    server.post(&format!("{API}/agent/stop"), &key, &stop).await.is(StatusCode::OK);
    let other = json!({"conversation_id": CONVERSATION, "run_id": "run_none"});
    server.post(&format!("{API}/agent/stop"), &key, &other).await.is_problem(404, "not_found");
}

// rows: CF-11
#[tokio::test]
async fn a_run_continues_without_its_stream() {
    let server = with_data();
    let key = server.key(&[]);
    let request = server.request(Method::POST, &format!("{API}/agent/chat")).bearer_auth(&key);
    let mut stream = request.json(&chat(TASK)).send().await.unwrap();
    let run = run_id(&read_to(&mut stream, "generation.start").await);
    drop(stream);
    // A message at this moment joins the same run, and its stream continues that run.
    let path = format!("{API}/agent/chat");
    let beside = server.post(&path, &key, &chat("Are you done?")).await.is(StatusCode::OK).body;
    let beside = beside.as_str().unwrap();
    assert!(run_id(beside).starts_with(&format!("{run}-")), "{beside}");
    assert!(beside.contains(r#""result":{"done":true},"status":"completed""#), "{beside}");
}

// rows: SK-R6
#[tokio::test]
async fn a_conversation_that_runs_is_stopped_and_deleted() {
    let (_models, server) = slow().await;
    let key = server.key(&[]);
    let request = server.request(Method::POST, &format!("{API}/agent/chat")).bearer_auth(&key);
    let mut stream = request.json(&chat("talk")).send().await.unwrap();
    read_to(&mut stream, "token").await;
    let path = format!("{API}/conversations/{CONVERSATION}");
    let delete = server.request(Method::DELETE, &path).bearer_auth(&key);
    answer(delete).await.is(StatusCode::OK);
    server.get(&path, &key).await.is_problem(404, "not_found");
}

// rows: SK-R10, SK-P15
#[tokio::test]
async fn what_was_used_is_counted() {
    let server = with_data();
    let key = server.key(&[]);
    let path = format!("{API}/agent/chat");
    let asked = server.post(&path, &key, &chat(TASK)).await.body;
    let call = asked.as_str().unwrap().rsplit("\"call_id\":\"").next().unwrap().split('"').next().unwrap();
    let yes = json!({"approve": true, "conversation_id": CONVERSATION});
    server.post(&format!("{API}/agent/approvals/{call}"), &key, &yes).await.is(StatusCode::OK);
    let metrics = server.get(&format!("{API}/analytics/metrics?last_n_days=2"), &key).await;
    let mut metrics = metrics.is(StatusCode::OK).body;
    let days = metrics["daily_breakdown"].as_array().unwrap().clone();
    assert_eq!((days.len(), &days[0]["total_tokens"], &days[0]["avg_ttr_ms"]), (2, &json!(0), &Value::Null));
    let tokens = ["total_tokens", "total_prompt_tokens", "total_completion_tokens"];
    let [all, prompt, completion] = tokens.map(|name| metrics[name].as_u64().unwrap());
    assert_eq!((all, days[1]["total_tokens"].as_u64()), (prompt + completion, Some(all)));
    assert!(prompt > 0 && completion > 0 && metrics["avg_ttr_ms"].as_f64().unwrap() > 0.0, "{metrics:#}");
    for name in ["daily_breakdown", "period_start", "period_end", "avg_ttft_ms", "avg_ttr_ms"]
        .into_iter()
        .chain(tokens)
    {
        metrics.as_object_mut().unwrap().remove(name);
    }
    let wanted = json!({
        "total_cost": 0.0,
        "total_cached_tokens": 0,
        "total_conversations": 1,
        "total_approvals": 1,
        "total_rejections": 0,
        "avg_cost_per_conversation": 0.0,
        "avg_tokens_per_conversation": all as f64,
        "cache_hit_rate": 0.0,
        "approval_acceptance_rate": 1.0,
    });
    assert_eq!(metrics, wanted);
    for (query, status) in [("last_n_days=0", 422), ("start_datetime=soon", 422)] {
        let answer = server.get(&format!("{API}/analytics/metrics?{query}"), &key).await;
        assert_eq!(answer.status, status, "{answer:#?}");
    }
}
