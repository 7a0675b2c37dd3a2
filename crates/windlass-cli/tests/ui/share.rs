//! A shared conversation: readable by its link, and nothing more.

use super::access::signed_in_as;
use super::page::Page;
use super::scripted_for;
use crate::cli::User;
use crate::cli::model::Turn;
use crate::http::auth::{administrator, member};

#[tokio::test]
async fn a_conversation_is_read_along_by_its_link_until_that_is_taken_back() {
    let user = User::new();
    user.configure("[server.limits]\nlook_again_s = 1\n");
    let turns = vec![Turn::Say("It is said."), Turn::Say("It is said again.")];
    let server = scripted_for(user, turns);
    let mut admin = administrator(&server).await;
    member(&mut admin, &server, "vic@example.com", "viewer").await;
    let own = Page::signed_in(&server).await;
    own.say("Speak.").await;
    own.sees("It is said.").await;
    own.press("Share").await;
    own.sees("Only you and the workspace's administrators").await;
    own.press("Create link").await;
    own.sees("Everyone in this workspace with the link").await;
    let link = own.until("the link", "return all('dialog input')[0]?.value").await;
    own.press("Close").await;

    let page = signed_in_as(&server, "vic@example.com").await;
    page.sees("Your role is view-only").await;
    let link = link.as_str().unwrap().trim_start_matches(&server.address).to_owned();
    assert!(link.starts_with("/chat/thr_"), "{link}");
    page.go(&link).await;
    page.sees("It is said.").await;
    page.sees("Shared by").await;
    let words = page.words().await;
    for missing in ["Inspect", "Edit", "Fork", "Share"] {
        assert!(!words.split_whitespace().any(|word| word == missing), "{missing}: {words}");
    }
    assert_eq!(page.number_of("[data-key=composer], .asks button, .chat form").await, 0);
    // The conversation is not in the reader's list, and new messages are streamed to the reader.
    assert_eq!(page.number_of(".history .thread").await, 0);
    own.say("Go on.").await;
    page.sees("It is said again.").await;

    own.go("/settings/shared").await;
    own.sees("Everyone in your workspace with the link").await;
    own.press("Revoke link").await;
    own.sees("Nothing is shared").await;
    page.sees("Conversation not found").await;
    assert!(!page.words().await.contains("It is said"));
    own.ends().await;
    page.ends_but_for(&["401", "404"]).await;
}

#[tokio::test]
async fn what_waits_in_a_shared_conversation_is_its_owners_to_answer() {
    let server = super::scripted(vec![Turn::Call(vec![super::write("a.md")]), Turn::Say("All is settled.")]);
    let mut admin = administrator(&server).await;
    member(&mut admin, &server, "ann@example.com", "member").await;
    let own = super::asked(&server).await;
    let thread = own.thread().await;
    own.press("Share").await;
    own.press("Create link").await;
    own.sees("Revoke link").await;
    own.press("Close").await;
    let page = signed_in_as(&server, "ann@example.com").await;
    page.sees("What would you like to do").await;
    page.go(&format!("/chat/{thread}")).await;
    page.sees("needs input").await;
    assert_eq!(page.number_of(".ask").await, 0);
    own.press("Approve").await;
    page.sees("All is settled.").await;
    own.ends().await;
    page.ends_but_for(&["401"]).await;
}
