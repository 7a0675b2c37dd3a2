//! A recorded conversation: its messages, prompts, export and fork.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::client::each;
use super::{Server, answer};
use crate::cli::lines;

// rows: SK-R6, SK-P4
#[tokio::test]
async fn messages_come_newest_page_first() {
    let server = Server::start(&[]);
    let (ann, _) = server.member("ann");
    let (bob, _) = server.member("bob");
    let (thread, run, interrupt) = ann.asked().await;
    let path = format!("/threads/{thread}/messages");
    let long = "so ".repeat(10_000);
    ann.post(&path, json!({"message": long})).await.is(StatusCode::ACCEPTED);
    let all = ann.get(&path).await.is(StatusCode::OK).body["data"].as_array().unwrap().clone();
    // Skips the messages of the first run.
    let whole = &all[2..];
    assert_eq!(each(whole, "role"), ["user", "assistant", "tool", "assistant", "tool", "assistant", "user"]);
    assert_eq!(each(&whole[5..], "status"), ["complete", "queued"]);
    assert_eq!(whole[6]["blocks"][0]["text"], long);
    let call = &whole[5]["calls"][0];
    assert_eq!((&call["state"], &call["interrupt"]), (&json!("asking"), &json!(interrupt)));
    let (mut pages, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = ann.get(&format!("{path}?limit=3{cursor}")).await.is(StatusCode::OK).body;
        let mut rows = page["data"].as_array().unwrap().clone();
        rows.append(&mut pages);
        pages = rows;
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(pages, all);
    bob.get(&path).await.is_problem(404, "not_found");
    ann.post(&format!("/runs/{run}/cancel"), json!({})).await.is(StatusCode::ACCEPTED);
    ann.wait(&run).await;
    let ended = ann.get(&path).await.is(StatusCode::OK).body;
    assert_eq!(ended["data"][7]["calls"][0]["outcome"], "cancelled");
}

#[tokio::test]
async fn a_steps_prompt_is_what_was_sent() {
    let server = Server::start(&[]);
    let (ann, _) = server.member("ann");
    let thread = ann.small_talk().await;
    let events = ann.get(&format!("/threads/{thread}/events")).await.is(StatusCode::OK).body;
    let events = events["data"].as_array().unwrap();
    let at = |kind: &str| events.iter().find(|event| event["type"] == kind).unwrap();
    let path = |seq: &Value| format!("/threads/{thread}/steps/{seq}/prompt");
    let prompt = ann.get(&path(&at("step.started")["seq"])).await.is(StatusCode::OK).body;
    assert_eq!(
        (&prompt["digest"], &prompt["replied"]),
        (&at("step.replied")["request"], &at("step.replied")["request"])
    );
    assert_eq!(prompt["model"], "demo/script");
    let kinds = each(prompt["parts"].as_array().unwrap(), "kind");
    assert!(kinds.contains(&"instructions") && kinds.contains(&"history"), "{kinds:?}");
    ann.get(&path(&at("run.started")["seq"])).await.is_problem(404, "not_found");
    ann.get(&path(&json!(9_999))).await.is_problem(404, "not_found");
    let (bob, _) = server.member("bob");
    bob.get(&path(&at("step.started")["seq"])).await.is_problem(404, "not_found");
}

#[tokio::test]
async fn an_export_is_the_journal_line_by_line() {
    let server = Server::start(&[]);
    let (ann, _) = server.member("ann");
    let thread = ann.small_talk().await;
    let path = format!("/api/v1/threads/{thread}/export");
    let response = server.request(Method::GET, &path).bearer_auth(&ann.key).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/x-ndjson");
    let exported = lines(&response.text().await.unwrap());
    let events = ann.get(&format!("/threads/{thread}/events")).await.is(StatusCode::OK).body;
    assert_eq!(json!(exported), events["data"]);
    let (bob, _) = server.member("bob");
    bob.get(&format!("/threads/{thread}/export")).await.is_problem(404, "not_found");
}

// rows: ZE-P9
#[tokio::test]
async fn files_are_put_back_as_they_were_at_an_event() {
    let server = Server::start(&[]);
    let (ann, _) = server.member("ann");
    let (thread, run, interrupt) = ann.asked().await;
    let path = format!("/threads/{thread}/files/restore");
    ann.post(&path, json!({"at": 1})).await.is_problem(409, "run_active");
    let approve = json!({"answer": {"kind": "approve"}});
    ann.post(&format!("/interrupts/{interrupt}/answer"), approve).await.is(StatusCode::OK);
    ann.wait(&run).await;
    let written = format!("/threads/{thread}/files/content?path=insights.md");
    ann.get(&written).await.is(StatusCode::OK);
    let fate = async |body: Value| {
        let said = ann.post(&path, body).await.is(StatusCode::OK).body;
        assert_eq!(
            (&said["files"][0]["path"], &said["unseen_total"]),
            (&json!("insights.md"), &json!(0)),
            "{said}"
        );
        said["files"][0]["fate"].as_str().unwrap().to_owned()
    };
    assert_eq!(fate(json!({"at": 1, "mode": "preview"})).await, "removed");
    ann.get(&written).await.is(StatusCode::OK);
    assert_eq!(fate(json!({"at": 1})).await, "removed");
    ann.get(&written).await.is_problem(404, "not_found");
    assert_eq!(fate(json!({"at": 1})).await, "unchanged");
    ann.post(&path, json!({"at": 9_999})).await.is_problem(404, "not_found");
    let (bob, _) = server.member("bob");
    bob.post(&path, json!({"at": 1})).await.is_problem(404, "not_found");
}

// rows: ZE-P9
#[tokio::test]
async fn a_fork_begins_with_the_history_and_goes_its_own_way() {
    let server = Server::start(&[]);
    let (ann, id) = server.member("ann");
    let thread = ann.small_talk().await;
    let said = async |thread: &str| {
        let page = ann.get(&format!("/threads/{thread}/messages")).await.is(StatusCode::OK);
        page.body["data"].as_array().unwrap().len()
    };
    let fork = format!("/threads/{thread}/fork");
    let made = ann.post(&fork, json!({})).await.is(StatusCode::CREATED);
    let new = made.body["id"].as_str().unwrap();
    assert_eq!((&made.body["owner"], &made.body["status"]), (&json!(id), &json!("idle")));
    assert_eq!(made.headers["location"], format!("/api/v1/threads/{new}"));
    assert_eq!(said(new).await, said(&thread).await);
    let more = ann.post(&format!("/threads/{new}/messages"), json!({"message": "more"})).await;
    ann.wait(more.is(StatusCode::CREATED).body["run"].as_str().unwrap()).await;
    assert_eq!((said(&thread).await, said(new).await), (2, 4));
    let inside = ann.post(&fork, json!({"at": 4})).await;
    inside.is_problem(409, "run_active");
    ann.post(&fork, json!({"at": 0})).await.is_problem(422, "invalid");
    ann.post(&fork, json!({"at": 9_999})).await.is_problem(404, "not_found");
    let (bob, _) = server.member("bob");
    bob.post(&fork, json!({})).await.is_problem(404, "not_found");
    answer(ann.request(Method::POST, &fork)).await.is_problem(415, "unsupported_media_type");
}
