//! Pictures of a conversation: readable by its readers; no other blob is served.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use windlass::machine::Digest;

use super::client::Client;
use super::{Server, answer};

/// A red picture of 48 by 32 pixels.
pub const DOT: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x30\0\0\0\x20\x08\x02\0\0\0\xdb\xb6lK\0\0\0\x31IDAT\x78\xda\
    \xed\xceA\x09\0\0\x08\x04\xb0\x8bc\x08\xfb\x63,[\x88\x8f\xc1\x02,\xd3\xf5J\x84\x84\x84\x84\x84\x84\x84\x84\x84\x84\
    \x84\x84\x84\x84\x84\x84\x84.-\x0e`\x08j\xca\xac@\x3c\0\0\0\0IEND\xaeB`\x82";

/// Sends a message with these files, and waits for the reply. Returns the thread and the digests of the files.
async fn sent(client: &Client<'_>, files: &[(&str, &[u8])]) -> (String, Vec<String>) {
    for (name, bytes) in files {
        let put = client.request(Method::PUT, &format!("/files/{name}")).body(bytes.to_vec());
        answer(put).await.is(StatusCode::CREATED);
    }
    let attachments: Vec<Value> = files.iter().map(|(name, _)| json!({ "upload": name })).collect();
    let body = json!({"message": "hello", "attachments": attachments});
    let run = client.post("/runs", body).await.is(StatusCode::CREATED).body;
    client.wait(run["run"].as_str().unwrap()).await;
    let thread = run["thread"].as_str().unwrap().to_owned();
    let said = client.get(&format!("/threads/{thread}/messages")).await.is(StatusCode::OK).body;
    let blocks = said["data"][0]["blocks"].as_array().unwrap();
    let digests = blocks.iter().filter_map(|block| block["blob"]["digest"].as_str()).map(str::to_owned);
    (thread, digests.collect())
}

// rows: ZE-H15
#[tokio::test]
async fn a_picture_is_visible_to_readers_of_the_conversation() {
    let server = Server::start(&[]);
    let (ann, _) = server.member("ann");
    let (bob, _) = server.member("bob");
    let gif = b"GIF89a rest";
    let (thread, digests) = sent(&ann, &[("dot.png", DOT), ("moves.png", gif)]).await;
    let path = |digest: &str| format!("/threads/{thread}/pictures/{digest}");
    let shown = ann.request(Method::GET, &path(&digests[0])).send().await.unwrap();
    assert_eq!(shown.status(), StatusCode::OK);
    for (name, value) in [
        ("content-type", "image/png"),
        ("content-disposition", "inline"),
        ("content-security-policy", "sandbox; default-src 'none'"),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "private, no-cache"),
    ] {
        assert_eq!(shown.headers()[name], value, "{name}");
    }
    let tag = shown.headers()["etag"].clone();
    assert_eq!(shown.bytes().await.unwrap(), DOT);
    // The browser revalidates each time, because its user may have changed; the bytes are sent once.
    let again = |client: &Client<'_>| {
        client.request(Method::GET, &path(&digests[0])).header("if-none-match", &tag).send()
    };
    let same = again(&ann).await.unwrap();
    assert_eq!((same.status(), &same.headers()["etag"]), (StatusCode::NOT_MODIFIED, &tag));
    assert!(same.bytes().await.unwrap().is_empty());
    assert_eq!(again(&bob).await.unwrap().status(), StatusCode::NOT_FOUND);
    let elsewhere = format!("/threads/{}/pictures/{}", ann.small_talk().await, digests[0]);
    let elsewhere = ann.request(Method::GET, &elsewhere).header("if-none-match", &tag).send().await.unwrap();
    assert_eq!(elsewhere.status(), StatusCode::NOT_FOUND);
    // The bytes determine the type, not the file's name.
    let shown = ann.request(Method::GET, &path(&digests[1])).send().await.unwrap();
    assert_eq!(shown.headers()["content-type"], "image/gif");

    // rows: SK-X7
    bob.get(&path(&digests[0])).await.is_problem(404, "not_found");
    let bobs = bob.small_talk().await;
    bob.get(&format!("/threads/{bobs}/pictures/{}", digests[0])).await.is_problem(404, "not_found");
    answer(server.request(Method::GET, &format!("/api/v1{}", path(&digests[0]))))
        .await
        .is_problem(401, "unauthenticated");
    let share = format!("/threads/{thread}/share");
    ann.put(&share, json!({})).await.is(StatusCode::OK);
    let shown = bob.request(Method::GET, &path(&digests[0])).send().await.unwrap();
    assert_eq!(shown.bytes().await.unwrap(), DOT);
    ann.delete(&share).await.is(StatusCode::NO_CONTENT);
    bob.get(&path(&digests[0])).await.is_problem(404, "not_found");
}

#[tokio::test]
async fn the_files_of_a_message_go_with_another_one() {
    let server = Server::start(&[]);
    let (ann, _) = server.member("ann");
    let (bob, _) = server.member("bob");
    let (thread, digests) = sent(&ann, &[("dot.png", DOT), ("notes.txt", b"the sum is 42")]).await;
    let said = ann.get(&format!("/threads/{thread}/messages")).await.is(StatusCode::OK).body;
    let (asked, answered) = (&said["data"][0], &said["data"][1]);
    let again = |message: &Value| json!({"message": "again", "attachments": [{"thread": thread, "message": message["seq"]}]});
    let run = ann.post("/runs", again(asked)).await.is(StatusCode::CREATED).body;
    ann.wait(run["run"].as_str().unwrap()).await;
    // A resent attachment remains if its original conversation is deleted.
    ann.delete(&format!("/threads/{thread}")).await.is(StatusCode::NO_CONTENT);
    let other = run["thread"].as_str().unwrap();
    let there = ann.get(&format!("/threads/{other}/messages")).await.is(StatusCode::OK).body;
    assert_eq!(there["data"][0]["blocks"].as_array().unwrap()[1..], asked["blocks"].as_array().unwrap()[1..]);
    let shown = ann.request(Method::GET, &format!("/threads/{other}/pictures/{}", digests[0]));
    assert_eq!(shown.send().await.unwrap().bytes().await.unwrap(), DOT);

    let (thread, _) = sent(&ann, &[("dot.png", DOT)]).await;
    let again =
        |seq: &Value| json!({"message": "again", "attachments": [{"thread": thread, "message": seq}]});
    ann.post("/runs", again(&answered["seq"])).await.is_problem(422, "invalid");
    ann.post("/runs", again(&json!(100_000))).await.is_problem(422, "invalid");
    // rows: SK-X7
    bob.post("/runs", again(&asked["seq"])).await.is_problem(404, "not_found");
    ann.put(&format!("/threads/{thread}/share"), json!({})).await.is(StatusCode::OK);
    bob.post("/runs", again(&asked["seq"])).await.is_problem(404, "not_found");
}

#[tokio::test]
async fn what_is_no_picture_of_the_conversation_is_not_there() {
    let server = Server::start(&[]);
    let (ann, _) = server.member("ann");
    let svg = b"<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>";
    let page = b"<!doctype html><script>alert(1)</script>";
    let (thread, digests) = sent(&ann, &[("a.txt", b"a text"), ("b.svg", svg), ("c.html", page)]).await;
    let (other, pictures) = sent(&ann, &[("dot.png", DOT)]).await;
    assert_eq!((digests.len(), pictures.len()), (3, 1));
    let unknown = Digest::of(b"nothing").to_string();
    let mut all: Vec<&str> = digests.iter().map(String::as_str).collect();
    all.extend([&pictures[0], &*unknown, "garbage", "%2e%2e%2fstore.db"]);
    for digest in all {
        ann.get(&format!("/threads/{thread}/pictures/{digest}")).await.is_problem(404, "not_found");
    }
    ann.get(&format!("/threads/thr_none/pictures/{}", pictures[0])).await.is_problem(404, "not_found");
    // A fork has the messages of the original.
    let messages = ann.get(&format!("/threads/{other}/events")).await.is(StatusCode::OK).body;
    let head = messages["data"].as_array().unwrap().last().unwrap()["seq"].clone();
    let fork = ann.post(&format!("/threads/{other}/fork"), json!({ "at": head })).await;
    let fork = fork.is(StatusCode::CREATED).body["id"].as_str().unwrap().to_owned();
    for thread in [&other, &fork] {
        let path = format!("/threads/{thread}/pictures/{}", pictures[0]);
        assert_eq!(ann.request(Method::GET, &path).send().await.unwrap().status(), StatusCode::OK);
    }
}
