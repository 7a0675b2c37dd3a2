//! The AG-UI dialect: golden exchanges with the real binary, the protocol's own packages, and interrupted streams.

mod cuts;
pub mod play;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use self::play::{check, check_schemas, events, script};
use super::client::Client;
use super::skyflo::scripted;
use super::{Server, answer};
use crate::cli::{TASK, lines};

/// A server with a conversation `t1` of the administrator, whose folder has the demo model's input file.
async fn with_data() -> Server {
    let server = Server::start(&[]);
    let ann = server.admin();
    let hello = json!({"id": "m0", "role": "user", "content": "hello"});
    let input = json!({"threadId": "t1", "runId": "r0", "messages": [hello]});
    post(&ann, &input).await.text().await.unwrap();
    let rows = lines(&server.user.run(&["threads", "list", "--json"]).exits(0).out);
    let path = format!("/threads/{}/files/content?path=data.csv", rows[0]["thread"].as_str().unwrap());
    let put = ann.request(Method::PUT, &path).body("city,people\nRome,3\nOslo,1\n");
    answer(put).await.is(StatusCode::CREATED);
    server
}

// rows: OV-14, OV-15
#[tokio::test]
async fn a_task_with_an_approval() {
    let server = with_data().await;
    check(&server, "a_task_with_an_approval").await;
    let journal = server.user.run(&["threads", "export"]).exits(0).out;
    assert_eq!(journal.matches("\"type\":\"message.received\"").count(), 2, "{journal}");
    assert_eq!(journal.matches("\"type\":\"interrupt.closed\"").count(), 1, "{journal}");
}

#[tokio::test]
async fn a_denial() {
    check(&with_data().await, "a_denial").await;
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    check(&Server::start(&[]), "what_makes_no_sense_is_refused").await;
}

#[tokio::test]
async fn data_of_other_users_is_hidden() {
    check(&Server::start(&[]), "data_of_other_users_is_hidden").await;
}

// rows: OV-15
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_own_client_reads_a_run_and_answers_it() {
    let server = with_data().await;
    let ann = server.admin();
    let url = format!("{}/agui", server.address);
    let told = script(&["talk", &url, &ann.key, "t1", TASK]);
    assert_eq!(told["outcomes"], json!(["interrupt", "success"]), "{told:#}");
    let roles: Vec<&str> = told["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!((roles[0], roles.last()), ("user", Some(&"assistant")), "{told:#}");
    // The client's messages equal the server's.
    let request = server.request(Method::GET, "/agui/threads/t1").bearer_auth(&ann.key);
    let stream = events(&request.send().await.unwrap().text().await.unwrap());
    let said = |messages: &Value| -> Vec<Value> {
        let all = messages.as_array().unwrap().iter();
        let mut all: Vec<_> =
            all.map(|message| json!([message["id"], message["content"], message["toolCalls"]])).collect();
        // The client appends messages that it received later.
        all.sort_by_key(|message| message[0].to_string());
        all
    };
    assert_eq!(said(&told["messages"]), said(&stream[1]["messages"]));
}

async fn post(ann: &Client<'_>, input: &Value) -> reqwest::Response {
    ann.server.request(Method::POST, "/agui").bearer_auth(&ann.key).json(input).send().await.unwrap()
}

#[tokio::test]
async fn a_stopped_run_is_cancelled_and_the_waiting_request_gets_an_error() {
    let (_models, server) = scripted("openai-chat/text-400-delay20ms", "").await;
    let (ann, _) = server.member("ann");
    let input = |run: &str, id: &str| json!({"threadId": "t", "runId": run, "messages": [{"id": id, "role": "user", "content": "talk"}]});
    let mut stream = post(&ann, &input("r1", "m1")).await;
    let mut seen = String::new();
    while !seen.contains("TEXT_MESSAGE_CONTENT") {
        seen.push_str(std::str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap());
    }
    let journal = lines(&server.user.run(&["threads", "export"]).exits(0).out);
    let run = journal.iter().find(|event| event["type"] == "run.started").unwrap()["run"].as_str().unwrap();
    // A message sent during a run is queued, and is not sent if that run is cancelled.
    let waiting = post(&ann, &input("r2", "m2")).await;
    ann.post(&format!("/runs/{run}/cancel"), json!({})).await;
    seen.push_str(&stream.text().await.unwrap());
    let told = events(&seen);
    assert_eq!(told.last().unwrap()["outcome"], json!({"type": "cancelled"}), "{seen}");
    let left = events(&waiting.text().await.unwrap());
    assert_eq!(left.last().unwrap()["code"], "waiting", "{left:#?}");
    let types = check_schemas(&[told, left]);
    assert!(types.iter().any(|kind| kind == "RUN_ERROR"), "{types:?}");
}
