//! The policy in the library: displayed, checked and tested.

use super::access::signed_in_as;
use super::choose;
use super::page::Page;
use crate::cli::User;
use crate::http::Server;
use crate::http::auth::{administrator, member};

const RULES: &str = "[[rule]]\nname = 'no secrets'\ntools = ['Read']\nverdict = 'deny'\n\
    when = [{ argument = '/file_path', matches = '[.]env$' }]\n";

fn ruled() -> Server {
    let user = User::new();
    let directory = user.home().join("config/windlass");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("policy.toml"), RULES).unwrap();
    Server::start_for(user, &[])
}

/// Tests the policy with a read of a file.
async fn ask(page: &Page, path: &str) {
    choose(page, ".gate [name=tool]", "Read").await;
    page.write(".gate [name='v.file_path']", path).await;
    page.press("Evaluate").await;
}

#[tokio::test]
async fn rules_are_read_in_words_checked_as_text_and_tried_before_they_count() {
    let server = ruled();
    let page = Page::signed_in(&server).await;
    page.go("/library/policy").await;
    page.sees("no secrets").await;
    page.sees("Read, if “file_path” matches [.]env$.").await;
    ask(&page, "x.env").await;
    page.sees("This call would be denied. Policy rule: “no secrets”.").await;
    ask(&page, "a.md").await;
    page.sees("This call would run.").await;

    page.press("Edit and check below").await;
    let wrong = format!("{RULES}\n[[rule]]\nverdict = 'deny'\ntool = 'Read'\n");
    page.run(
        "const field = all('[name=policy]')[0]; field.value = arguments[0]; field.dispatchEvent(new Event('input', { bubbles: true }))",
        vec![wrong.into()],
    )
    .await;
    page.press("Check").await;
    page.sees("The policy has errors and cannot be used.").await;
    page.sees("Line 9").await;
    page.sees("did you mean `tools`?").await;

    let stricter = format!("{RULES}\n[[rule]]\nname = 'ask first'\nverdict = 'ask'\ntools = ['Read']\n");
    page.run(
        "const field = all('[name=policy]')[0]; field.value = arguments[0]; field.dispatchEvent(new Event('input', { bubbles: true }))",
        vec![stricter.into()],
    )
    .await;
    page.misses("The policy has errors and cannot be used.").await;
    page.press("Check").await;
    page.sees("2 rules, no problems found.").await;
    choose(&page, ".gate [name=rules]", "text").await;
    ask(&page, "a.md").await;
    page.sees("This call would need approval. Policy rule: “ask first”.").await;
    // The draft is not in force.
    choose(&page, ".gate [name=rules]", "force").await;
    ask(&page, "a.md").await;
    page.sees("This call would run.").await;
    page.ends().await;
}

#[tokio::test]
async fn members_can_test_the_policy_and_viewers_see_why_they_cannot() {
    let server = ruled();
    let mut admin = administrator(&server).await;
    member(&mut admin, &server, "ann@example.com", "member").await;
    member(&mut admin, &server, "vic@example.com", "viewer").await;
    let page = signed_in_as(&server, "ann@example.com").await;
    page.sees("What would you like to do").await;
    page.go("/library/policy").await;
    ask(&page, "x.env").await;
    page.sees("This call would be denied. Policy rule: “no secrets”.").await;
    assert!(!page.words().await.contains("[.]env"));
    page.ends_but_for(&["401"]).await;
    let page = signed_in_as(&server, "vic@example.com").await;
    page.sees("Your role is view-only").await;
    page.go("/library/policy").await;
    page.sees("Policy not available").await;
    page.ends_but_for(&["401"]).await;
}
