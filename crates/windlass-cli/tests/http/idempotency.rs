//! A request that is sent twice takes effect once, even across a crash.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::client::Client;
use super::{Answer, Server, answer};

async fn send(client: &Client<'_>, key: &str, path: &str, body: &Value) -> Answer {
    answer(client.request(Method::POST, path).header("idempotency-key", key).json(body)).await
}

async fn threads(client: &Client<'_>) -> usize {
    client.all("/threads", 50).await.len()
}

#[tokio::test]
async fn the_same_key_gives_the_first_answer() {
    let server = Server::start(&[]);
    let (ann, _) = server.member("ann");
    let (bob, _) = server.member("bob");
    let body = json!({"message": "hello"});
    let first = send(&ann, "k1", "/runs", &body).await.is(StatusCode::CREATED);
    assert!(!first.headers.contains_key("idempotency-replayed"));
    let again = send(&ann, "k1", "/runs", &body).await.is(StatusCode::CREATED);
    assert_eq!((&again.body, &again.headers["location"]), (&first.body, &first.headers["location"]));
    assert_eq!((again.headers["idempotency-replayed"].to_str().unwrap(), threads(&ann).await), ("true", 1));
    send(&ann, "k1", "/runs", &json!({"message": "other"})).await.is_problem(422, "key_reused");
    // Another key, another path, another user.
    send(&ann, "k2", "/runs", &body).await.is(StatusCode::CREATED);
    send(&bob, "k1", "/runs", &body).await.is(StatusCode::CREATED);
    let path = format!("/threads/{}/messages", first.body["thread"].as_str().unwrap());
    let more = send(&ann, "k1", &path, &body).await;
    assert!(more.status == 201 || more.status == 202, "{more:#?}");
    assert_eq!((threads(&ann).await, threads(&bob).await), (2, 1));
    // A rejection is repeated; authorization is checked again on each request.
    let nothing = json!({"message": ""});
    send(&ann, "k3", "/runs", &nothing).await.is_problem(422, "invalid");
    send(&ann, "k3", "/runs", &nothing).await.is_problem(422, "invalid");
    for key in ["", "two words", &"x".repeat(256)] {
        send(&ann, key, "/runs", &body).await.is_problem(400, "bad_request");
    }
    answer(server.request(Method::POST, "/api/v1/runs").header("idempotency-key", "k").json(&body))
        .await
        .is_problem(401, "unauthenticated");
}

#[tokio::test]
async fn many_at_once_are_one() {
    let server = Server::start(&[]);
    let (ann, _) = server.member("ann");
    let body = json!({"message": "hello"});
    let all = futures::future::join_all((0..8).map(|_| send(&ann, "k1", "/runs", &body))).await;
    let made: Vec<&Answer> = all.iter().filter(|answer| answer.status == 201).collect();
    assert!(made.iter().all(|one| one.body == made[0].body), "{made:#?}");
    all.iter().filter(|answer| answer.status != 201).for_each(|busy| busy.is_problem(409, "key_running"));
    assert_eq!((made.is_empty(), threads(&ann).await), (false, 1));
}

#[tokio::test]
async fn a_crash_between_claim_and_answer_makes_nothing_twice() {
    let server = Server::start(&[]);
    let (_, id) = server.member("ann");
    let key = server.key(&["--user", &id]);
    let body = json!({"message": "hello"});
    let first = send(&Client { server: &server, key: key.clone() }, "k1", "/runs", &body).await;
    let first = first.is(StatusCode::CREATED);
    let user = server.kill();
    forget_answers(&user.store());
    let server = Server::start_for(user, &[]);
    let ann = Client { server: &server, key };
    let again = send(&ann, "k1", "/runs", &body).await.is(StatusCode::CREATED);
    assert_eq!((&again.body, threads(&ann).await), (&first.body, 1));
}

/// Removes the stored responses from the claims, and makes the claims old enough to be taken over.
fn forget_answers(store: &std::path::Path) {
    const TAKEN: &str = "update records set value = json_set(json_remove(value, '$.answer'), '$.taken', 0) where kind = 'idempotency'";
    let database = rusqlite::Connection::open(store.join("windlass.db")).unwrap();
    assert_eq!(database.execute(TAKEN, []).unwrap(), 1);
}
