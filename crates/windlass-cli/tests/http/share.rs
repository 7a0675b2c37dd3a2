//! Shared conversations: who can read them, until when, and which data is visible.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::Server;
use super::client::each;
use super::stream::Events;
use crate::cli::User;

#[tokio::test]
async fn a_shared_conversation_is_read_and_listed_until_that_is_taken_back() {
    let user = User::new();
    user.configure("[server.limits]\nlook_again_s = 1\n");
    let server = Server::start_for(user, &[]);
    let (ann, ann_id) = server.member("ann");
    let (bob, _) = server.member("bob");
    let thread = ann.small_talk().await;
    let place = format!("/threads/{thread}");
    let share = format!("{place}/share");
    assert_eq!(ann.get(&share).await.is(StatusCode::OK).body["shared"], false);
    bob.get(&place).await.is_problem(404, "not_found");
    bob.put(&share, json!({})).await.is_problem(404, "not_found");

    let made = ann.put(&share, json!({})).await.is(StatusCode::OK).body;
    // Sharing again changes nothing.
    assert_eq!(ann.put(&share, json!({})).await.is(StatusCode::OK).body, made);
    assert_eq!((&made["shared"], &made["by"]["id"]), (&json!(true), &json!(ann_id)));
    assert_eq!(bob.get(&place).await.is(StatusCode::OK).body["owner"], ann_id);
    assert_eq!(bob.get(&share).await.is(StatusCode::OK).body, made);
    let said = bob.get(&format!("{place}/messages")).await.is(StatusCode::OK).body;
    assert!(said["data"].as_array().unwrap().len() > 1, "{said:#}");
    // Any member with the link can read it, but it is in no other user's list.
    assert_eq!(bob.all("/threads", 10).await, Vec::<Value>::new());
    assert_eq!(each(&ann.all("/shares", 1).await, "thread"), [&*thread]);
    assert_eq!(bob.all("/shares", 1).await, Vec::<Value>::new());
    bob.get(&format!("/shares?user={ann_id}")).await.is_problem(404, "not_found");
    let boss = server.admin();
    let listed = boss.get(&format!("/shares?user={ann_id}")).await.is(StatusCode::OK).body;
    assert_eq!(listed["data"][0]["thread"], thread.as_str());

    let stream = server.stream(&format!("/api/v1{place}/stream"), &bob.key);
    let mut reading = Events::open(stream).await;
    assert!(reading.next().await.is_some());
    ann.delete(&share).await.is(StatusCode::NO_CONTENT);
    let rest = tokio::time::timeout(Duration::from_secs(60), reading.all()).await.expect("it ends");
    let last = rest.last().unwrap();
    assert_eq!((last.name.as_str(), &last.data["problem"]["status"]), ("error", &json!(404)), "{rest:#?}");
    bob.get(&place).await.is_problem(404, "not_found");
    assert_eq!(ann.all("/shares", 1).await, Vec::<Value>::new());
    ann.delete(&share).await.is(StatusCode::NO_CONTENT);

    let entries = boss.all("/audit", 50).await;
    let shares: Vec<&Value> =
        entries.iter().filter(|entry| entry["action"].as_str().unwrap().contains("shared")).collect();
    let told = |entry: &Value| (entry["action"].clone(), entry["subject"].clone(), entry["actor"].clone());
    let one = |action: &str| (json!(action), json!(thread), json!(ann_id));
    assert_eq!(
        shares.into_iter().map(told).collect::<Vec<_>>(),
        [one("thread.unshared"), one("thread.shared")]
    );
}

#[tokio::test]
async fn a_conversation_that_is_deleted_is_shared_no_more() {
    let server = Server::start(&[]);
    let (ann, _) = server.member("ann");
    let thread = ann.small_talk().await;
    ann.put(&format!("/threads/{thread}/share"), json!({})).await.is(StatusCode::OK);
    // An administrator can end sharing, as can the owner.
    let boss = server.admin();
    boss.delete(&format!("/threads/{thread}/share")).await.is(StatusCode::NO_CONTENT);
    assert_eq!(ann.all("/shares", 1).await, Vec::<Value>::new());
    ann.put(&format!("/threads/{thread}/share"), json!({})).await.is(StatusCode::OK);
    ann.delete(&format!("/threads/{thread}")).await.is(StatusCode::NO_CONTENT);
    assert_eq!(ann.all("/shares", 1).await, Vec::<Value>::new());
}
