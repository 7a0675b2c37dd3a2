//! Conversations: listed, searched, renamed, read and deleted by their owners.

use reqwest::{Method, StatusCode};
use serde::Serialize;
use serde_json::json;
use windlass::machine::Digest;

use super::client::each;
use super::{Server, answer};

/// The ETag of a version, computed as in `http/etag.rs`.
pub fn etag(version: &impl Serialize) -> String {
    format!("\"{}\"", &Digest::default().chain(version).to_string()[..24])
}

// rows: SK-R5
#[tokio::test]
async fn threads_come_in_pages_newest_first_to_their_owner() {
    let server = Server::start(&[]);
    let (ann, _) = server.member("ann");
    let (bob, _) = server.member("bob");
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(ann.small_talk().await);
    }
    let of_bob = bob.small_talk().await;
    made.reverse();
    let rows = ann.all("/threads", 2).await;
    assert_eq!(each(&rows, "id"), made);
    assert_eq!(each(&bob.all("/threads", 2).await, "id"), [of_bob]);
    let admin = server.admin();
    assert_eq!(admin.all("/threads", 50).await.len(), 0);
    assert_eq!(admin.all("/threads?all=true", 4).await.len(), 6);
    ann.get("/threads?all=true").await.is_problem(403, "forbidden");
    // The last thread gets a new title, which makes it the most recently active.
    let last = &made[4];
    let path = format!("/threads/{last}");
    ann.patch(&path, json!({"title": "Über Windlass"})).await.is(StatusCode::OK);
    assert_eq!(each(&ann.all("/threads?query=windlass", 2).await, "id"), [last]);
    assert_eq!(ann.all("/threads?query=nowhere", 2).await.len(), 0);
    assert_eq!(ann.all("/threads?status=idle", 2).await.len(), 5);
    assert_eq!(ann.all("/threads?status=running", 2).await.len(), 0);
    for (query, what) in [
        ("query=w", "`query` has 1 characters"),
        ("limit=0", "`limit` is 0"),
        ("limit=201", "`limit` is 201"),
        ("limit=x", "is invalid"),
        ("cursor=abc", "`cursor` is `abc`"),
        ("status=asleep", "asleep"),
    ] {
        let refused = ann.get(&format!("/threads?{query}")).await;
        refused.is_problem(400, "bad_request");
        assert!(refused.body["detail"].as_str().unwrap().contains(what), "{refused:#?}");
    }
}

#[tokio::test]
async fn a_change_is_made_to_the_version_that_was_read() {
    let server = Server::start(&[]);
    let (ann, _) = server.member("ann");
    let path = format!("/threads/{}", ann.small_talk().await);
    let read = ann.get(&path).await.is(StatusCode::OK);
    let tag = read.headers["etag"].to_str().unwrap().to_owned();
    assert!(tag.starts_with('"'), "{tag}");
    let again = answer(ann.request(Method::GET, &path).header("if-none-match", &tag)).await;
    assert_eq!(
        (again.status, &again.headers["etag"], &again.body),
        (304, &read.headers["etag"], &json!(null))
    );
    // A client with a response from an older build, which had fewer fields, reads it again.
    let (id, created, head) = (&read.body["id"], &read.body["created_at"], &read.body["head"]);
    let now = etag(&("thread", 2, id, created, head));
    let before = etag(&("thread", id, created, head));
    for (tag, status) in [(now, StatusCode::NOT_MODIFIED), (before, StatusCode::OK)] {
        answer(ann.request(Method::GET, &path).header("if-none-match", tag)).await.is(status);
    }
    let rename = |tag: &str, title: &str| {
        answer(ann.request(Method::PATCH, &path).header("if-match", tag).json(&json!({"title": title})))
    };
    let renamed = rename(&tag, "first").await.is(StatusCode::OK);
    assert_eq!(renamed.body["title"], "first");
    rename(&tag, "second").await.is_problem(412, "changed");
    answer(ann.request(Method::DELETE, &path).header("if-match", &tag)).await.is_problem(412, "changed");
    let fresh =
        answer(ann.request(Method::GET, &path).header("if-none-match", &tag)).await.is(StatusCode::OK);
    assert_eq!(fresh.body["title"], "first");
    assert_eq!(fresh.headers["etag"], renamed.headers["etag"]);
    for title in ["", "   ", &"x".repeat(61)] {
        ann.patch(&path, json!({"title": title})).await.is_problem(422, "invalid");
    }
    ann.patch(&path, json!({"titel": "x"})).await.is_problem(422, "invalid");
    answer(ann.request(Method::PATCH, &path).body("x")).await.is_problem(415, "unsupported_media_type");
}

#[tokio::test]
async fn events_tell_everything_in_order() {
    let server = Server::start(&[]);
    let (ann, _) = server.member("ann");
    let thread = ann.small_talk().await;
    let path = format!("/threads/{thread}/events");
    let whole = ann.get(&path).await.is(StatusCode::OK).body;
    let events = whole["data"].as_array().unwrap();
    assert_eq!((events[0]["seq"].as_u64(), events[0]["type"].as_str()), (Some(1), Some("thread.created")));
    assert_eq!(events.last().unwrap()["type"], "run.finished");
    assert_eq!(whole["next_after"], json!(null));
    let mut after = 0;
    let mut parts = Vec::new();
    loop {
        let part = ann.get(&format!("{path}?after={after}&limit=2")).await.is(StatusCode::OK).body;
        parts.extend(part["data"].as_array().unwrap().iter().cloned());
        let Some(next) = part["next_after"].as_u64() else { break };
        after = next;
    }
    assert_eq!(&parts, events);
    ann.get(&format!("{path}?limit=501")).await.is_problem(400, "bad_request");
}

#[tokio::test]
async fn a_thread_is_deleted_once_nothing_runs_in_it() {
    let server = Server::start(&[]);
    let (ann, id) = server.member("ann");
    let (bob, _) = server.member("bob");
    let (thread, run, _) = ann.asked().await;
    let path = format!("/threads/{thread}");
    for method in [Method::GET, Method::DELETE] {
        answer(bob.request(method, &path)).await.is_problem(404, "not_found");
    }
    bob.patch(&path, json!({"title": "mine"})).await.is_problem(404, "not_found");
    ann.delete(&path).await.is_problem(409, "refused");
    ann.post(&format!("/runs/{run}/cancel"), json!({})).await.is(StatusCode::ACCEPTED);
    ann.wait(&run).await;
    let folder = server.user.store().join("files/default").join(&id).join("workspace").join(&thread);
    assert!(folder.join("data.csv").is_file(), "{}", folder.display());
    ann.delete(&path).await.is(StatusCode::NO_CONTENT);
    assert!(!folder.exists());
    ann.get(&path).await.is_problem(404, "not_found");
    ann.get(&format!("/runs/{run}")).await.is_problem(404, "not_found");
}

/// Conversations of the server do not belong to the folder of the command line.
#[tokio::test]
async fn a_chat_continues_no_conversation_of_the_server() {
    let server = Server::start(&[]);
    let (ann, _) = server.member("ann");
    ann.small_talk().await;
    let refused = server.user.run(&["chat", "--continue"]).exits(2).err;
    assert!(refused.contains("no conversation in the folder"), "{refused}");
    server.user.run(&["run", "hello"]).exits(0);
    server.user.run(&["chat", "--continue"]).exits(0);
}
