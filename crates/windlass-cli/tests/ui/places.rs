//! The other pages: the sidebar, runs, usage and settings.

use reqwest::{Method, StatusCode};
use serde_json::json;
use thirtyfour::prelude::*;

use super::page::Page;
use super::scripted;
use crate::cli::model::Turn;
use crate::http::{Server, answer};

const FIRST: &str = ".history .thread";

/// A displayed conversation with one reply.
async fn talked(server: &Server) -> Page {
    let page = Page::signed_in(server).await;
    page.say("About apples.").await;
    page.sees("It is said.").await;
    page
}

fn talker() -> Server {
    scripted(vec![Turn::Say("It is said.")])
}

/// Opens the menu of the first conversation in the sidebar.
async fn menu(page: &Page) {
    page.element(".history .thread .title").await;
    page.run("document.querySelector('.history .thread .menu [popover]').showPopover()", vec![]).await;
}

async fn rename(page: &Page, title: &str) {
    menu(page).await;
    page.press("Rename").await;
    page.write("form.thread [name=title]", title).await;
    page.types(Key::Enter + "").await;
    page.until_of(
        "the title",
        "return all('.history .title')[0].innerText === arguments[0]",
        vec![title.into()],
    )
    .await;
}

#[tokio::test]
async fn a_conversation_is_renamed() {
    let server = talker();
    let page = talked(&server).await;
    rename(&page, "Of apples").await;
    page.until("above it too", "return all('h1.title')[0].innerText === 'Of apples'").await;
    page.driver.refresh().await.unwrap();
    page.until("after a reload", "return all('.history .title')[0].innerText === 'Of apples'").await;
    page.ends().await;
}

// rows: SK-U11
#[tokio::test]
async fn a_title_that_arrives_while_visible_is_animated() {
    let server = talker();
    let page = talked(&server).await;
    page.element(".history .thread .title[data-fresh=false]").await;
    let key = server.key(&[]);
    let thread = server.get("/api/v1/threads", &key).await.body["data"][0]["id"].as_str().unwrap().to_owned();
    let named = server.request(Method::PATCH, &format!("/api/v1/threads/{thread}")).bearer_auth(&key);
    answer(named.json(&json!({"title": "Of pears"}))).await.is(StatusCode::OK);
    page.until(
        "it is written",
        "return all('.history .title[data-fresh=true]')[0]?.innerText === 'Of pears'",
    )
    .await;
    let moves = "return getComputedStyle(all('.history .title')[0]).animationName === 'written'";
    page.until("and moves", moves).await;
    page.ends().await;
}

#[tokio::test]
async fn a_conversation_is_deleted_after_a_question() {
    let server = talker();
    let page = talked(&server).await;
    page.element(FIRST).await;
    menu(&page).await;
    page.press("Delete").await;
    page.sees("You cannot undo this").await;
    page.press("Cancel").await;
    page.misses("You cannot undo this").await;
    assert_eq!(page.number_of(FIRST).await, 1);
    menu(&page).await;
    page.press("Delete").await;
    page.until("it is asked", "return all('dialog .danger')[0]").await;
    page.element("dialog .danger").await.click().await.unwrap();
    page.sees("What would you like to do").await;
    page.until("it is gone", "return all('.history .thread').length === 0").await;
    page.ends().await;
}

// rows: SK-U11
#[tokio::test]
async fn the_sidebar_is_searched() {
    let server = talker();
    let page = talked(&server).await;
    rename(&page, "Of apples").await;
    page.press("New conversation").await;
    page.sees("What would you like to do").await;
    page.say("About pears.").await;
    page.sees("It is said.").await;
    page.until("both", "return all('.history .thread').length === 2").await;
    rename(&page, "Of pears").await;
    page.write("[data-key=search]", "apple").await;
    page.until(
        "one is left",
        "return all('.history .title').map((one) => one.innerText).join() === 'Of apples'",
    )
    .await;
    page.write("[data-key=search]", "plums").await;
    page.sees("No results for “plums”.").await;
    page.ends().await;
}

// rows: ZE-X5
#[tokio::test]
async fn a_run_is_inspected_down_to_the_prompt() {
    let server = talker();
    let page = talked(&server).await;
    page.driver.find(By::Css("a[href^='/runs?thread=']")).await.unwrap().click().await.unwrap();
    page.sees("Runs of this conversation").await;
    page.element("table.list a[href^='/runs/']").await.click().await.unwrap();
    page.sees("Step 1").await;
    page.element("details.span summary").await.click().await.unwrap();
    page.press("Show prompt").await;
    page.sees("tokens, estimated").await;
    page.run("document.querySelectorAll('.prompt details').forEach((one) => (one.open = true))", vec![])
        .await;
    page.sees("About apples.").await;
    page.run("all('.tabs [aria-pressed]')[1].click()", vec![]).await;
    page.sees("run.finished").await;
    page.ends().await;
}

#[tokio::test]
async fn two_runs_are_compared() {
    let server = scripted(vec![Turn::Say("One."), Turn::Say("Two is longer.")]);
    let page = Page::signed_in(&server).await;
    page.say("Go.").await;
    page.sees("One.").await;
    page.say("Again.").await;
    page.sees("Two is longer.").await;
    page.go("/runs").await;
    page.until("two runs", "return all('td input').length === 2").await;
    // Both clicks precede the next redraw.
    page.run("all('td input').forEach((one) => one.click())", vec![]).await;
    page.press("Compare selected").await;
    page.sees("Different rows are highlighted.").await;
    page.ends().await;
}

#[tokio::test]
async fn a_key_is_made_shown_once_and_revoked() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    page.go("/settings/keys").await;
    page.sees("No API keys yet").await;
    page.write("[name=name]", "nightly").await;
    page.element("[name=scope][value=read]").await.click().await.unwrap();
    page.press("Create key").await;
    let secret = page.until("the key", "return all('dialog pre')[0]?.innerText").await;
    let me = server.get("/api/v1/auth/me", secret.as_str().unwrap()).await;
    assert_eq!(me.status, 200);
    page.types(Key::Escape + "").await;
    page.until("it is closed", "return all('dialog').length === 0").await;
    assert!(!page.words().await.contains(secret.as_str().unwrap()));
    page.press("Revoke").await;
    page.sees("No API keys yet").await;
    server.get("/api/v1/auth/me", secret.as_str().unwrap()).await.is_problem(401, "unauthenticated");
    page.ends().await;
}

#[tokio::test]
async fn when_it_asks_is_chosen_and_the_allow_list_kept() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    page.go("/settings/asking").await;
    page.press("allowlist Ask, except for tools on your allow list").await;
    page.until("it is kept", "return fetch('/api/v1/auto-run') && all('[type=radio]')[1].checked").await;
    page.write("[name=tool]", "Write").await;
    page.press("Add").await;
    page.until("it is listed", "return all('.chips')[0].innerText.includes('Write')").await;
    assert_eq!(page.asks("/auto-run").await["effective"], json!("allowlist"));
    page.press("Remove Write").await;
    page.until("it is gone", "return !document.querySelector('.chips').innerText.includes('Write')").await;
    page.ends().await;
}

#[tokio::test]
async fn an_invitation_is_made_and_taken_back() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    page.go("/settings/team").await;
    page.write("[name=email]", "ann@example.com").await;
    page.press("Create link").await;
    page.sees("One-time link").await;
    page.types(Key::Escape + "").await;
    page.sees("ann@example.com, as member").await;
    page.press("Revoke").await;
    page.misses("ann@example.com, as member").await;
    page.ends().await;
}
