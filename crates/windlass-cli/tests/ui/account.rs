//! Rarely used settings: signing out everywhere, password links, appearance, sending, grants, and the audit log.

use serde_json::json;
use thirtyfour::prelude::*;

use super::access::signed_in_as;
use super::page::Page;
use super::{otherwise, scripted, scripted_for};
use crate::cli::User;
use crate::cli::model::Turn;
use crate::http::Server;
use crate::http::auth::{administrator, member};

#[tokio::test]
async fn signing_out_everywhere_ends_every_session() {
    let server = Server::start(&[]);
    let one = Page::signed_in(&server).await;
    let other = Page::signed_in(&server).await;
    one.go("/settings/sessions").await;
    one.until("both", "return all('.item').length === 2 && text().includes('this session')").await;
    let named = "return all('.item').every((one) => / on Linux/.test(one.innerText) && !one.innerText.includes('Mozilla'))";
    one.until("what people call it", named).await;
    one.press("Sign out everywhere").await;
    one.sees("Sign in to Windlass").await;
    other.go("/settings/sessions").await;
    other.sees("Sign in to Windlass").await;
    one.ends_but_for(&["401"]).await;
    other.ends_but_for(&["401"]).await;
}

#[tokio::test]
async fn a_session_of_another_browser_is_ended_alone() {
    let server = Server::start(&[]);
    let one = Page::signed_in(&server).await;
    let other = Page::signed_in(&server).await;
    one.go("/settings/sessions").await;
    one.press("End session").await;
    one.until("one is left", "return all('.item').length === 1 && text().includes('this session')").await;
    other.go("/settings").await;
    other.sees("Sign in to Windlass").await;
    one.ends().await;
    other.ends_but_for(&["401"]).await;
}

#[tokio::test]
async fn an_administrator_makes_a_link_to_a_new_password() {
    let server = Server::start(&[]);
    let mut admin = administrator(&server).await;
    member(&mut admin, &server, "ann@example.com", "member").await;
    let page = Page::signed_in(&server).await;
    page.go("/settings/team").await;
    page.press("Reset password").await;
    page.sees("One-time link").await;
    let link = page.until("the link", "return all('dialog pre')[0]?.innerText").await;
    let ann = Page::open(&server).await;
    ann.driver.goto(link.as_str().unwrap().trim()).await.unwrap();
    ann.sees("Choose a new password").await;
    ann.write("[name=password]", "another horse").await;
    ann.press("Save and sign in").await;
    ann.sees("What would you like to do").await;
    // The account is hers, and the link cannot be used again.
    ann.go("/settings").await;
    ann.press("Sign out of this browser").await;
    ann.sees("Sign in to Windlass").await;
    super::access::sign_in(&ann, "ann@example.com", "another horse").await;
    ann.sees("What would you like to do").await;
    ann.driver.goto(link.as_str().unwrap().trim()).await.unwrap();
    ann.until("it is refused", "return document.querySelector('form') === null && text().length > 0").await;
    page.ends().await;
    ann.ends_but_for(&["401", "410"]).await;
}

#[tokio::test]
async fn density_is_chosen_and_kept() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    page.go("/settings/look").await;
    let gap =
        "return getComputedStyle(document.documentElement).getPropertyValue('--gap').trim() === arguments[0]";
    page.sees("Density").await;
    let usual = "return getComputedStyle(document.documentElement).getPropertyValue('--gap').trim()";
    let usual = page.run(usual, vec![]).await;
    assert_ne!(usual, "8px");
    page.press("Compact").await;
    page.until_of("less room", gap, vec!["8px".into()]).await;
    page.driver.refresh().await.unwrap();
    page.until_of("after a reload too", gap, vec!["8px".into()]).await;
    page.press("Comfortable").await;
    page.until_of("as it was", gap, vec![usual]).await;
    page.ends().await;
}

#[tokio::test]
async fn enter_begins_a_line_where_ctrl_enter_sends() {
    let server = scripted(vec![Turn::Say("It is said.")]);
    let page = Page::signed_in(&server).await;
    page.go("/settings/look").await;
    page.press("Ctrl Enter sends, Enter starts a new line").await;
    page.go("/").await;
    let field = page.element("[data-key=composer]").await;
    field.send_keys("One line.").await.unwrap();
    field.send_keys(Key::Enter + "").await.unwrap();
    field.send_keys("Another.").await.unwrap();
    page.shows("return all('[data-key=composer]')[0].value", vec![], "One line.\nAnother.").await;
    field.send_keys(Key::Control + Key::Enter).await.unwrap();
    page.sees("It is said.").await;
    let said = "return all('.entry.user .said').map((one) => one.innerText.trim())";
    page.shows(said, vec![], json!(["One line.\nAnother."])).await;
    page.ends().await;
}

#[tokio::test]
async fn budgets_say_what_is_used_of_them() {
    let user = User::new();
    user.configure(
        "[[budget]]\nper = 'user'\nunit = 'steps'\nwindow = 'day'\ncap = 20\n\
         [[budget]]\nper = 'workspace'\nunit = 'steps'\ncap = 50000\n",
    );
    let server = scripted_for(user, vec![Turn::Say("It is said.")]);
    let page = Page::signed_in(&server).await;
    page.say("Speak.").await;
    page.sees("It is said.").await;
    page.until("it is over", "return all('.stop').length === 0").await;
    page.go("/settings/limits").await;
    page.sees("1 of 20").await;
    page.sees("1 of 50,000").await;
    let meters = "return all('.item meter').map((one) => [one.value, one.max]).sort((a, b) => a[1] - b[1])";
    page.shows(meters, vec![], json!([[1, 20], [1, 50_000]])).await;
    page.ends().await;
}

#[tokio::test]
async fn administrators_read_the_audit_log_page_by_page_and_download_it() {
    let server = Server::start(&[]);
    let mut admin = administrator(&server).await;
    member(&mut admin, &server, "ann@example.com", "member").await;
    let page = Page::signed_in(&server).await;
    page.go("/settings").await;
    // A small page size simulates a long list.
    otherwise(&page, "return url.includes('/audit?') ? window.through(url.replace('limit=50', 'limit=3'), options) : real()")
        .await;
    page.press("Audit log").await;
    let rows = "return all('.audit tbody tr').map((row) => [row.cells[2].innerText, row.cells[3].innerText])";
    page.until("the newest", "return all('.audit tbody tr').length === 3").await;
    let newest = page.run(rows, vec![]).await;
    assert_eq!(newest[0], json!(["Local administrator", "login"]));
    let log = page.asks("/audit").await;
    let all: Vec<_> = log["data"].as_array().unwrap().iter().map(|entry| &entry["action"]).collect();
    for shown in 2..=all.len().div_ceil(3) {
        page.press("Load more").await;
        let there = "return all('.audit tbody tr').length === arguments[0]";
        page.until_of("those before", there, vec![json!(all.len().min(3 * shown))]).await;
    }
    page.misses("Load more").await;
    let shown = page.run(rows, vec![]).await;
    let shown: Vec<_> = shown.as_array().unwrap().iter().map(|row| &row[1]).collect();
    assert_eq!(shown, all);
    let file = "const link = button('Download full log'); return fetch(link.href).then((answer) => answer.text()).then((text) => [link.download, text.trim().split('\\n').length - 1])";
    assert_eq!(page.run(file, vec![]).await, json!(["audit.ndjson", all.len()]));
    page.ends().await;

    // Members cannot see this page.
    let ann = signed_in_as(&server, "ann@example.com").await;
    ann.sees("What would you like to do").await;
    ann.go("/settings/audit").await;
    ann.sees("Sign out of this browser").await;
    assert!(!ann.words().await.contains("Audit log"));
    ann.ends_but_for(&["401"]).await;
}
