//! Titles that a model makes of new conversations.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};
use windlass::testing::provider::ProviderServer;

use super::Server;
use super::client::Client;
use crate::cli::User;

const MADE: &str = "Rollback of the web shop";

/// A server that has its titles made by a model of `chat`'s scenario; the runs are the demo model's.
fn server(chat: &ProviderServer, scenario: &str) -> Server {
    let user = User::new();
    let url = format!("{}/v1", chat.url(scenario));
    user.configure(&format!("[providers.openai-compatible]\nbase_url = \"{url}\"\n"));
    let mut command = user.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("WINDLASS_TITLE_MODEL", "openai-compatible/namer");
    Server::spawn(user, command)
}

async fn title(client: &Client<'_>, thread: &str) -> Value {
    client.get(&format!("/threads/{thread}")).await.is(StatusCode::OK).body["title"].clone()
}

/// The titles that a thread was given, once there are two.
async fn both(client: &Client<'_>, thread: &str) -> Vec<Value> {
    for _ in 0..600 {
        let events = client.all(&format!("/threads/{thread}/events"), 100).await;
        let titled: Vec<_> = events.into_iter().filter(|event| event["type"] == "thread.titled").collect();
        if titled.len() > 1 {
            return titled;
        }
        tokio::time::sleep(Duration::from_millis(50)).await; // tidy: sleep it waits for the thing itself
    }
    panic!("no title was made");
}

// rows: SK-P7
#[tokio::test]
async fn a_model_names_a_new_thread_once() {
    let provider = ProviderServer::start().await.unwrap();
    let server = server(&provider, "oai-title");
    let (ann, _) = server.member("ann");
    let thread = ann.small_talk().await;
    let titled = both(&ann, &thread).await;
    let [first, made] = &*titled else { panic!("{titled:#?}") };
    assert_eq!((&first["title"], &first["by"]), (&json!("hello"), &json!("engine")));
    assert_eq!((&made["title"], &made["by"]), (&json!(MADE), &json!("engine")));
    assert_eq!(
        (&made["made"]["usage"]["input"], &made["made"]["usage"]["output"]),
        (&json!(1000), &json!(50))
    );
    assert_eq!(title(&ann, &thread).await, MADE);
    // The model saw what was said on both sides, and none of the tools.
    let [asked] = &*provider.requests() else { panic!("{:#?}", provider.requests()) };
    let said = asked.body["messages"].to_string();
    for wanted in ["3 to 6 words", "hello", "assistant"] {
        assert!(said.contains(wanted), "{said}");
    }
    assert!(asked.body.get("tools").is_none(), "{}", asked.body);
    // A second message asks for no other title.
    ann.task(&thread).await;
    assert_eq!(provider.requests().len(), 1);
    assert_eq!(title(&ann, &thread).await, MADE);
}

// rows: SK-P7
#[tokio::test]
async fn a_thread_keeps_its_first_words_where_the_model_says_no_title_or_fails() {
    let provider = ProviderServer::start().await.unwrap();
    let talker = server(&provider, "oai-maxtok");
    let (ann, _) = talker.member("ann");
    let thread = ann.small_talk().await;
    let titled = both(&ann, &thread).await;
    assert_eq!((&titled[1]["title"], &titled[1]["by"]), (&json!("hello"), &json!("engine")));
    assert!(titled[1]["made"]["usage"].is_object(), "what it cost is told all the same: {titled:#?}");

    let refuser = server(&provider, "oai-x-401");
    let (bob, _) = refuser.member("bob");
    let thread = bob.small_talk().await;
    while provider.requests().len() < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await; // tidy: sleep it waits for the thing itself
    }
    assert_eq!(title(&bob, &thread).await, "hello");
}
