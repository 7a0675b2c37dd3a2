//! Messages to an active run.

use serde_json::json;
use thirtyfour::prelude::*;

use super::page::Page;
use super::typing::said;
use super::{asked, otherwise, scripted, write};
use crate::cli::model::Turn;

/// The messages and calls, in order.
const ENTRIES: &str = "return [...document.querySelectorAll('.entry')].map((one) => one.querySelector('.said, .markdown')?.innerText.trim() ?? one.querySelector('.call strong').innerText)";

/// Whether a fork may begin before a message, or the reason why not.
const BEFORE: &str = "return import('/ui/-/app/state/journal.js').then(({ before }) => before(arguments[0], arguments[1])).then(() => 'it may', (error) => error.message)";

/// The position of a message with this text.
async fn place_of(page: &Page, words: &str) -> serde_json::Value {
    let messages = page.asks(&format!("/threads/{}/messages?limit=50", page.thread().await)).await;
    let rows = messages["data"].as_array().unwrap();
    rows.iter().find(|row| row["blocks"][0]["text"] == words).unwrap()["seq"].clone()
}

// rows: SK-U6, ZE-P7
#[tokio::test]
async fn a_message_to_a_busy_run_is_delivered_after_the_current_step() {
    let server = scripted(vec![
        Turn::Call(vec![write("a.md")]),
        Turn::Say("The first is done."),
        Turn::Say("The second is done."),
    ]);
    let page = asked(&server).await;
    let field = page.element("[data-key=composer]").await;
    field.send_keys("Use plain words.").await.unwrap();
    field.send_keys(Key::Control + (Key::Shift + (Key::Enter + ""))).await.unwrap();
    page.sees("after the current step").await;
    page.say("And then?").await;
    page.sees("when the run is done").await;
    field.send_keys("In short.").await.unwrap();
    page.press("Send now").await;
    let places = "return all('.queue .place').map((one) => one.innerText)";
    let wanted = json!(["after the current step", "when the run is done", "after the current step"]);
    let three = "return all('.queue li').length === 3";
    page.until("all three", three).await;
    page.shows(places, vec![], wanted.clone()).await;
    page.driver.refresh().await.unwrap();
    page.until("all three, after a reload", "return all('.queue .place').length === 3").await;
    page.shows(places, vec![], wanted).await;
    page.press("Approve").await;
    page.sees("The second is done.").await;
    let order = json!([
        "Write it.",
        "Write",
        "Use plain words.",
        "In short.",
        "The first is done.",
        "And then?",
        "The second is done."
    ]);
    for _ in 0..2 {
        page.until("it is over", "return all('.stop').length === 0 && all('.entry').length === 7").await;
        page.shows(ENTRIES, vec![], order.clone()).await;
        let edits = "return [...document.querySelectorAll('.entry.user')].map((one) => [...one.querySelectorAll('button')].some((one) => one.innerText === 'Edit'))";
        page.shows(edits, vec![], json!([true, false, false, true])).await;
        page.driver.refresh().await.unwrap();
    }
    let thread = page.thread().await;
    for (words, may) in [("Write it.", true), ("In short.", false), ("And then?", true)] {
        let place = place_of(&page, words).await;
        let said = page.run(BEFORE, vec![thread.clone().into(), place]).await;
        assert_eq!(said == "it may", may, "{words}: {said}");
    }
    page.ends().await;
}

#[tokio::test]
async fn a_message_with_unknown_delivery_is_resent_with_the_same_key() {
    let server = scripted(vec![Turn::Call(vec![write("a.md")]), Turn::Say("It is written.")]);
    let page = asked(&server).await;
    let cut = "if (!url.endsWith('/messages')) return real();
        (window.keys ??= []).push(options.headers['idempotency-key']);
        const answer = await real(); if (!window.healed) throw new TypeError('cut'); window.answered = true; return answer";
    otherwise(&page, cut).await;
    page.element("[data-key=composer]").await.send_keys("Use plain words.").await.unwrap();
    page.press("Send now").await;
    page.sees("Cannot reach the server").await;
    page.run("window.healed = true", vec![]).await;
    page.press("Approve").await;
    page.sees("It is written.").await;
    page.until("it is over", "return all('.stop').length === 0").await;
    page.press("Send").await;
    page.until("it is answered", "return window.answered").await;
    page.shows("return new Set(window.keys).size", vec![], 1).await;
    assert_eq!(said(&page).await, 2);
    page.ends_but_for(&["Unreachable"]).await;
}
