//! Queued messages: read, changed, withdrawn, and sent early.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::client::{Client, each};
use super::{Server, answer};

async fn queued(client: &Client<'_>, thread: &str, text: &str) -> String {
    let body = json!({"message": text});
    let sent = client.post(&format!("/threads/{thread}/messages"), body).await.is(StatusCode::ACCEPTED);
    sent.body["message"].as_str().unwrap().to_owned()
}

// rows: ZE-P7
#[tokio::test]
async fn waiting_messages_are_changed_withdrawn_and_sent_now() {
    let server = Server::start(&[]);
    let (ann, _) = server.member("ann");
    let (bob, _) = server.member("bob");
    let (thread, first, _) = ann.asked().await;
    let long = "so ".repeat(10_000);
    let (a, b, c) = (
        queued(&ann, &thread, "a").await,
        queued(&ann, &thread, "b").await,
        queued(&ann, &thread, "c").await,
    );
    let path = format!("/threads/{thread}/queue");
    let list = async || ann.get(&path).await.is(StatusCode::OK).body["data"].as_array().unwrap().clone();
    assert_eq!(each(&list().await, "text"), ["a", "b", "c"]);
    let of = |id: &str| format!("{path}/{id}");
    let read = ann.get(&of(&a)).await.is(StatusCode::OK);
    let edit = |tag: &Value, text: &str| {
        let request = ann.request(Method::PATCH, &of(&a)).header("if-match", tag.as_str().unwrap());
        answer(request.json(&json!({"message": text})))
    };
    let tag = json!(read.headers["etag"].to_str().unwrap());
    let edited = edit(&tag, &long).await.is(StatusCode::OK);
    assert_eq!((&edited.body["text"], &edited.body["place"]), (&json!(long), &json!("after_run")));
    edit(&tag, "once more").await.is_problem(412, "changed");
    ann.patch(&of(&a), json!({"message": ""})).await.is_problem(422, "invalid");
    bob.get(&path).await.is_problem(404, "not_found");
    bob.delete(&of(&b)).await.is_problem(404, "not_found");
    ann.delete(&of(&b)).await.is(StatusCode::NO_CONTENT);
    ann.delete(&of(&b)).await.is_problem(404, "not_found");
    assert_eq!(each(&list().await, "id"), [a, c.clone()]);

    let sent = ann.post(&format!("{}/send", of(&c)), json!({})).await.is(StatusCode::ACCEPTED);
    let run = sent.body["run"].as_str().unwrap();
    assert_eq!(ann.wait(run).await["status"], "done");
    assert_eq!(ann.wait(&first).await["status"], "cancelled");
}
