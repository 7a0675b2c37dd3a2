//! What was said once more: after a failure and a stop in the same conversation, else in one of its own.

use serde_json::{Value, json};
use thirtyfour::prelude::*;

use super::page::Page;
use super::{answered_twice, scripted, write};
use crate::cli::model::Turn;

/// What was said to the agent, with the files that went along.
async fn said(page: &Page) -> Value {
    let said = "return [...document.querySelectorAll('.entry.user')].map((one) => [one.querySelector('.said').firstChild.textContent.trim(), one.querySelectorAll('.chips li').length])";
    page.run(said, vec![]).await
}

/// How many buttons there are that say it again, whether a pointer shows them or not.
const BUTTONS: &str = "return [...document.querySelectorAll('.entry button, .after-note button')].filter((one) => one.innerText === 'Try again').length";

#[tokio::test]
async fn after_a_failure_the_same_is_said_again_in_the_same_conversation() {
    let server = scripted(vec![Turn::Say("First answer."), Turn::Refuse("no such key here")]);
    let page = Page::signed_in(&server).await;
    page.say("One.").await;
    page.sees("First answer.").await;
    page.say("Two.").await;
    page.until("it has failed", "return all('.note[data-tone=error]').length === 1").await;
    page.driver.refresh().await.unwrap();
    page.sees("Two.").await;
    page.press("Try again").await;
    page.until("it fails again", "return all('.note[data-tone=error]').length === 2").await;
    assert_eq!(said(&page).await, json!([["One.", 0], ["Two.", 0], ["Two.", 0]]));
    page.until("the last one alone can be tried", &format!("{BUTTONS} === 1")).await;
    page.ends().await;
}

#[tokio::test]
async fn after_a_stop_the_same_is_said_again_with_its_files() {
    let server = scripted(vec![Turn::Call(vec![write("a.md")]), Turn::Say("It is read.")]);
    let page = Page::signed_in(&server).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("figures.csv");
    std::fs::write(&path, "a,b\n1,2\n").unwrap();
    let field = page.driver.find(By::Css("input[type=file]")).await.unwrap();
    field.send_keys(path.to_str().unwrap()).await.unwrap();
    page.sees("figures.csv").await;
    page.say("Read it.").await;
    page.sees("May Write run?").await;
    page.press("Stop").await;
    page.sees("Stopped.").await;
    page.press("Try again").await;
    page.sees("It is read.").await;
    assert_eq!(said(&page).await, json!([["Read it.", 1], ["Read it.", 1]]));
    page.ends().await;
}

#[tokio::test]
async fn an_answer_is_tried_again_beside_the_first_and_leads_to_its_steps() {
    let server = scripted(vec![Turn::Say("First answer."), Turn::Say("Second answer.")]);
    let page = answered_twice(&server).await;
    page.until("the last answer alone can be tried", &format!("{BUTTONS} === 1")).await;
    let parent = page.thread().await;
    page.run("[...document.querySelectorAll('.entry button')].find((one) => one.innerText === 'Try again').click()", vec![]).await;
    let there = format!(
        "return location.pathname.startsWith('/chat/') && location.pathname !== '/chat/{parent}' && all('.entry.assistant .markdown').length === 2"
    );
    page.until("another conversation, with its answer", &there).await;
    page.until("it is over", "return all('.stop').length === 0").await;
    assert_eq!(said(&page).await, json!([["One.", 0], ["Two.", 0]]));
    let thread = page.thread().await;
    let own = page.asks(&format!("/runs?thread={thread}")).await["data"][0]["id"].clone();
    let steps = "return [...document.querySelectorAll('.entry.assistant .actions a')].at(-1).pathname";
    assert_eq!(page.run(steps, vec![]).await, format!("/runs/{}", own.as_str().unwrap()));
    page.run("[...document.querySelectorAll('.entry.assistant .actions a')].at(-1).click()", vec![]).await;
    page.until("its steps", "return location.pathname.startsWith('/runs/') && text().includes('Step 1')")
        .await;
    page.ends().await;
}
