//! Runs: started, awaited and cancelled, and messages during an active run.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::client::{Client, each};
use super::stream::Events;
use super::threads::etag;
use super::{Server, answer};
use crate::cli::model::{Model, Turn};
use crate::cli::{TASK, User};

// rows: LM-R3
#[tokio::test]
async fn a_run_is_started_waited_for_and_told_in_one_flat_shape() {
    let server = Server::start(&[]);
    let (ann, _) = server.member("ann");
    let body = json!({"message": [{"kind": "text", "text": "hello"}], "timezone": "Europe/Rome"});
    let sent = ann.post("/runs", body).await.is(StatusCode::CREATED);
    let run = sent.body["run"].as_str().unwrap();
    assert_eq!(sent.headers["location"], format!("/api/v1/runs/{run}"));
    assert_eq!(sent.body["queued"], false);
    let done = ann.wait(run).await;
    assert_eq!((&done["runId"], &done["status"], &done["errors"]), (&json!(run), &json!("done"), &json!([])));
    assert_eq!((&done["meta"]["threadId"], &done["meta"]["turns"]), (&sent.body["thread"], &json!(1)));
    assert!(done["data"].as_str().unwrap().starts_with("I am the demo model"), "{done:#}");

    let path = format!("/runs/{run}");
    let one = ann.get(&path).await.is(StatusCode::OK);
    let told = |mut outcome: Value| {
        outcome["timestamp"] = Value::Null;
        outcome
    };
    let tag = one.headers["etag"].clone();
    assert_eq!(told(one.body), told(done));
    let same = answer(ann.request(Method::GET, &path).header("if-none-match", &tag)).await;
    assert_eq!(same.status, 304);
    // A client with a response from an older build, which had fewer fields, reads it again.
    let end = ann.get("/runs").await.is(StatusCode::OK).body["data"][0]["finished_at"].as_u64().unwrap();
    for (tag, status) in
        [(etag(&("run", 2, run, end)), StatusCode::NOT_MODIFIED), (etag(&("run", run, end)), StatusCode::OK)]
    {
        answer(ann.request(Method::GET, &path).header("if-none-match", format!("W/{tag}"))).await.is(status);
    }
    // Waits for a run in the same conversation, with the header `Prefer`.
    let more = format!("/threads/{}/messages", sent.body["thread"].as_str().unwrap());
    let second = ann.post(&more, json!({"message": "again"})).await.is(StatusCode::CREATED);
    let patient = ann.request(Method::GET, &format!("/runs/{}", second.body["run"].as_str().unwrap()));
    let patient = answer(patient.header("prefer", "wait=30")).await.is(StatusCode::OK);
    assert_eq!(
        (&patient.body["status"], &patient.headers["preference-applied"]),
        (&json!("done"), &"wait=30".parse().unwrap())
    );
    let rows = ann.all("/runs", 1).await;
    assert_eq!(each(&rows, "id"), [second.body["run"].as_str().unwrap(), run]);
    assert_eq!(each(&rows, "status"), ["done", "done"]);
    assert_eq!(ann.all("/runs?active=true", 1).await.len(), 0);
    let of_thread = format!("/runs?thread={}", sent.body["thread"].as_str().unwrap());
    assert_eq!(ann.all(&of_thread, 50).await, rows);
}

#[tokio::test]
async fn what_makes_no_task_is_refused_with_its_value() {
    let server = Server::start(&[]);
    let (ann, _) = server.member("ann");
    let text = |chars: usize| "é".repeat(chars);
    ann.post("/runs", json!({"message": text(32_768)})).await.is(StatusCode::CREATED);
    for (body, what) in [
        (json!({"message": text(32_769)}), "32769 characters"),
        (json!({"message": " \n"}), "blank"),
        (json!({"message": []}), "blank"),
        (json!({"message": vec![json!({"kind": "text", "text": "x"}); 65]}), "65 blocks"),
        (json!({"message": "x", "agent": "other"}), "agent `other` does not exist"),
        (json!({"message": "x", "model": "nowhere/x"}), "`nowhere/x`"),
        (json!({"message": "x", "timezone": "Mars/Olympus"}), "`Mars/Olympus`"),
        (json!({"message": "x", "when_busy": "wait"}), "wait"),
        (json!({"message": "x", "mesage": "x"}), "mesage"),
        (json!({}), "message"),
    ] {
        let refused = ann.post("/runs", body).await;
        refused.is_problem(422, "invalid");
        assert!(refused.body["detail"].as_str().unwrap().contains(what), "{what}: {refused:#?}");
    }
    ann.post("/runs", json!({"message": "x", "thread": "thr_no"})).await.is_problem(404, "not_found");
    ann.post("/threads/thr_no/messages", json!({"message": "x"})).await.is_problem(404, "not_found");
    let broken = ann.request(Method::POST, "/runs").header("content-type", "application/json").body("{");
    answer(broken).await.is_problem(400, "bad_request");
    ann.get("/runs?until=9223372036854775808").await.is_problem(400, "bad_request");
    ann.get("/runs/run_no/wait?timeout=61").await.is_problem(400, "bad_request");
}

// rows: ZE-P7
#[tokio::test]
async fn what_happens_to_a_message_while_a_run_is_active_is_the_senders_choice() {
    let server = Server::start(&[]);
    let (ann, _) = server.member("ann");
    let (thread, first, _) = ann.asked().await;
    let path = format!("/threads/{thread}/messages");
    let send = |when: &str| ann.post(&path, json!({"message": "and then?", "when_busy": when}));
    send("reject").await.is_problem(409, "busy");
    for when in ["queue", "steer"] {
        let waits = send(when).await.is(StatusCode::ACCEPTED);
        assert_eq!(waits.body["queued"], true);
    }
    let waiting = ann.get(&format!("/runs/{first}/wait?timeout=1")).await.is(StatusCode::OK);
    assert_eq!(waiting.body["status"], "paused");
    let next = send("replace").await.is(StatusCode::CREATED).body["run"].as_str().unwrap().to_owned();
    assert_eq!(ann.wait(&next).await["status"], "done");
    let replaced = ann.wait(&first).await;
    assert_eq!((&replaced["status"], &replaced["meta"]["cancelled"]), (&json!("cancelled"), &json!(true)));
}

// The test blocks on commands while the model streams.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_partial_text_of_a_stopped_run_is_returned_once() {
    let user = User::new();
    let said = ["half of it", " and the rest"].map(|text| json!({ "content": text }));
    let model = Model::start(vec![Turn::Slowly(Duration::from_secs(60), said.to_vec())]);
    let command = model.command(&user, &["serve", "--listen", "127.0.0.1:0"]);
    let server = Server::spawn(user, command);
    let (ann, _) = server.member("ann");
    let sent = ann.post("/runs", json!({"message": "go"})).await.is(StatusCode::CREATED).body;
    let (run, thread) = (sent["run"].as_str().unwrap(), sent["thread"].as_str().unwrap());
    let mut events = Events::open(ann.request(Method::GET, &format!("/runs/{run}/stream"))).await;
    while events.next().await.unwrap().name != "message.delta" {}
    ann.post(&format!("/runs/{run}/cancel"), json!({})).await.is(StatusCode::ACCEPTED);
    assert_eq!(ann.wait(run).await["status"], "cancelled");
    let told = ann.get(&format!("/threads/{thread}/messages")).await.is(StatusCode::OK).body;
    assert_eq!(told.to_string().matches("half of it").count(), 1, "{told:#}");
    let last = told["data"].as_array().unwrap().last().unwrap();
    let end = &last["after"][0];
    assert_eq!(
        (&last["status"], &end["type"], &end["status"], end.get("output")),
        (&json!("partial"), &json!("run.finished"), &json!("cancelled"), None)
    );
}

#[tokio::test]
async fn only_the_owner_can_stop_a_run() {
    let server = Server::start(&[]);
    let (ann, _) = server.member("ann");
    let (bob, _) = server.member("bob");
    let (_, run, _) = ann.asked().await;
    let cancel = format!("/runs/{run}/cancel");
    for path in [format!("/runs/{run}"), format!("/runs/{run}/wait")] {
        bob.get(&path).await.is_problem(404, "not_found");
    }
    bob.post(&cancel, json!({})).await.is_problem(404, "not_found");
    ann.post(&cancel, json!({})).await.is(StatusCode::ACCEPTED);
    assert_eq!(ann.wait(&run).await["status"], "cancelled");
    ann.post(&cancel, json!({})).await.is_problem(409, "closed");
    // A viewer cannot start runs.
    let viewer = server.add_user("eve@example.com", &["--role", "viewer"]);
    let key = server.key(&["--user", &viewer]);
    let body = json!({"message": TASK});
    server.post("/api/v1/runs", &key, &body).await.is_problem(403, "forbidden");
    assert_eq!(server.get("/api/v1/runs", &key).await.is(StatusCode::OK).body["data"], json!([]));
}

#[tokio::test]
async fn agents_models_and_tools_are_listed() {
    let server = Server::start(&[]);
    let (ann, _) = server.member("ann");
    let agents = ann.get("/agents").await.is(StatusCode::OK).body;
    let agent = &agents["data"][0];
    assert!(agent["instructions"].is_array() && agent["mode"].is_string(), "{agent}");
    // A key that cannot start runs does not see the agent's instructions, even if its user can.
    let reads = Client { server: &server, key: server.key(&["--scope", "read"]) };
    let told = reads.get("/agents/default").await.is(StatusCode::OK).body;
    assert_eq!(
        (&told["name"], &told["instructions"], &told["mode"]),
        (&json!("default"), &json!(null), &json!(null))
    );
    assert_eq!((&agent["name"], &agent["models"]), (&json!("default"), &json!(["demo/script"])));
    assert_eq!(agent["digest"].as_str().unwrap().len(), 64);
    assert_eq!(&ann.get("/agents/default").await.is(StatusCode::OK).body, agent);
    ann.get("/agents/other").await.is_problem(404, "not_found");
    let models = ann.get("/models").await.is(StatusCode::OK).body;
    let model = &models["data"][0];
    assert_eq!(
        (&model["name"], &model["available"], &model["tool_calls"]),
        (&json!("demo/script"), &json!(true), &json!(true))
    );
    let tools = ann.get("/tools").await.is(StatusCode::OK).body;
    let names = each(tools["data"].as_array().unwrap(), "name");
    assert_eq!(agent["tools"], json!(names));
    assert!(names.contains(&"Write") && names.contains(&"request_human_approval"), "{names:?}");
    let read = ann.get("/tools/Read").await.is(StatusCode::OK).body;
    let told = (&read["effect_class"], &read["annotations"]["readOnlyHint"], &read["tags"]);
    assert_eq!(told, (&json!("pure"), &json!(true), &json!(["builtin", "read_only"])));
    let write = ann.get("/tools/Write").await.is(StatusCode::OK).body;
    assert_eq!((&write["annotations"]["readOnlyHint"], &write["previews"]), (&json!(false), &json!(true)));
    ann.get("/tools/nothing").await.is_problem(404, "not_found");
}
