//! Permissions in the web UI, and a page whose session ends.

use super::page::Page;
use super::scripted;
use crate::cli::model::Turn;
use crate::http::Server;
use crate::http::auth::{PASSWORD, administrator, member};

/// A browser in which a user has signed in with the form.
pub async fn signed_in_as(server: &Server, email: &str) -> Page {
    let page = Page::open(server).await;
    page.go("/").await;
    sign_in(&page, email, PASSWORD).await;
    page
}

pub async fn sign_in(page: &Page, email: &str, password: &str) {
    page.write("[name=email]", email).await;
    page.write("[name=password]", password).await;
    page.press("Sign in").await;
}

#[tokio::test]
async fn a_wrong_password_is_rejected_and_a_correct_one_signs_in() {
    let server = Server::start(&[]);
    let mut admin = administrator(&server).await;
    member(&mut admin, &server, "ann@example.com", "member").await;
    let page = Page::open(&server).await;
    page.go("/usage").await;
    sign_in(&page, "ann@example.com", "not the word").await;
    page.until("it is refused", "return all('[role=alert]').length === 1").await;
    sign_in(&page, "ann@example.com", PASSWORD).await;
    // After the sign-in the browser shows the page that the user had requested.
    page.sees("No runs in this range").await;
    page.go("/settings").await;
    page.press("Sign out of this browser").await;
    page.sees("Sign in to Windlass").await;
    page.ends_but_for(&["401"]).await;
}

#[tokio::test]
async fn a_viewer_looks_and_starts_nothing() {
    let server = Server::start(&[]);
    let mut admin = administrator(&server).await;
    member(&mut admin, &server, "vic@example.com", "viewer").await;
    let page = signed_in_as(&server, "vic@example.com").await;
    page.sees("Your role is view-only").await;
    let words = page.words().await;
    assert!(!words.contains("New conversation"), "{words}");
    assert_eq!(page.number_of("[data-key=composer]").await, 0);
    page.go("/settings/team").await;
    page.sees("Settings").await;
    assert!(!page.words().await.contains("Invite a member"));
    page.ends_but_for(&["401"]).await;
}

#[tokio::test]
async fn a_session_that_ends_takes_nothing_of_what_was_typed() {
    let server = scripted(vec![Turn::Say("It is said.")]);
    let mut admin = administrator(&server).await;
    member(&mut admin, &server, "ann@example.com", "member").await;
    let page = signed_in_as(&server, "ann@example.com").await;
    page.write("[data-key=composer]", "a long thought").await;
    page.driver.delete_all_cookies().await.unwrap();
    page.say("").await;
    page.sees("Your session has ended").await;
    page.write(".veil [name=password]", PASSWORD).await;
    page.press("Sign in").await;
    page.misses("Your session has ended").await;
    page.until("it is still there", "return all('[data-key=composer]')[0].value === 'a long thought'").await;
    page.say("").await;
    page.sees("It is said.").await;
    page.ends_but_for(&["401", "the request has no credential"]).await;
}

#[tokio::test]
async fn a_session_that_ends_in_a_conversation_leaves_it_and_what_was_typed() {
    let server = scripted(vec![Turn::Say("It is said."), Turn::Say("And once more.")]);
    let mut admin = administrator(&server).await;
    member(&mut admin, &server, "ann@example.com", "member").await;
    let page = signed_in_as(&server, "ann@example.com").await;
    page.say("Say it.").await;
    page.sees("It is said.").await;
    page.until("it is done", "return all('.stop').length === 0").await;
    page.write("[data-key=composer]", "a second thought").await;
    page.driver.delete_all_cookies().await.unwrap();
    page.say("").await;
    page.sees("Your session has ended").await;
    page.write(".veil [name=password]", PASSWORD).await;
    page.press("Sign in").await;
    page.misses("Your session has ended").await;
    page.sees("It is said.").await;
    page.until("it is still there", "return all('[data-key=composer]')[0].value === 'a second thought'")
        .await;
    page.say("").await;
    page.sees("And once more.").await;
    page.ends_but_for(&["401", "the request has no credential"]).await;
}

#[tokio::test]
async fn two_windows_show_one_conversation() {
    let server = scripted(vec![
        Turn::Say("It is said."),
        Turn::Call(vec![super::write("a.md")]),
        Turn::Say("It is written."),
    ]);
    let one = Page::signed_in(&server).await;
    one.say("Say it.").await;
    one.sees("It is said.").await;
    let other = Page::signed_in(&server).await;
    other.go(&format!("/chat/{}", one.thread().await)).await;
    other.sees("It is said.").await;
    other.say("Write it.").await;
    for page in [&one, &other] {
        page.sees("Allow Write to ").await;
    }
    one.press("Approve").await;
    for page in [&one, &other] {
        page.sees("It is written.").await;
        page.misses("Allow Write to ").await;
        page.until("it is over", "return all('.stop').length === 0").await;
        assert_eq!(page.number_of(".entry.user").await, 2);
    }
    one.ends().await;
    other.ends().await;
}

#[tokio::test]
async fn a_conversation_of_another_user_is_not_found() {
    let server = scripted(vec![Turn::Say("A secret.")]);
    let mut admin = administrator(&server).await;
    member(&mut admin, &server, "ann@example.com", "member").await;
    let own = Page::signed_in(&server).await;
    own.say("Tell.").await;
    own.sees("A secret.").await;
    let thread = own.thread().await;
    own.ends().await;
    let page = signed_in_as(&server, "ann@example.com").await;
    page.sees("What would you like to do").await;
    page.go(&format!("/chat/{thread}")).await;
    page.sees("Conversation not found").await;
    assert!(!page.words().await.contains("A secret."));
    page.ends_but_for(&["401", "404"]).await;
}
