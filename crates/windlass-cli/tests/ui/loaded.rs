//! Partially loaded conversations, and one that could not be loaded at first.

use serde_json::json;

use super::page::Page;
use super::{answered_twice, otherwise, scripted};
use crate::cli::model::Turn;

/// Limits pages of messages to this size; older pages get the given response.
fn cut(limit: usize, older: &str) -> String {
    format!(
        "if (!url.includes('/messages?')) return real();
         if (url.includes('cursor=') && window.held !== false) {older};
         return window.through(url.replace(/limit=\\d+/, 'limit={limit}'), options)"
    )
}

const NEVER: &str = "return new Promise(() => {})";
const REFUSED: &str = "return Response.json({ status: 409, detail: 'not at this moment' }, { status: 409, headers: { 'content-type': 'application/problem+json' } })";

/// Leaves the conversation and returns to it with these responses, without a reload.
async fn back_with(page: &Page, answers: &str) {
    let thread = page.thread().await;
    page.press("New conversation").await;
    page.sees("What would you like to do").await;
    otherwise(page, answers).await;
    page.element(&format!("a[href='/chat/{thread}']")).await.click().await.unwrap();
}

// rows: SK-U9
#[tokio::test]
async fn the_sum_counts_what_is_not_loaded() {
    let server = scripted(vec![Turn::Say("First answer."), Turn::Say("Second answer.")]);
    let page = answered_twice(&server).await;
    back_with(&page, &cut(2, NEVER)).await;
    page.sees("Second answer.").await;
    page.until("both", "return all('.figures')[0].innerText.includes('20 in · 10 out · 30 total')").await;
    assert!(!page.words().await.contains("First answer."));
    page.ends().await;
}

#[tokio::test]
async fn a_result_finds_its_call_on_the_page_before() {
    let glob = |pattern: &str| Turn::Call(vec![("Glob", json!({"pattern": pattern}))]);
    let server = scripted(vec![glob("*.one"), glob("*.two"), Turn::Say("The end.")]);
    let page = Page::signed_in(&server).await;
    page.say("Look.").await;
    page.sees("The end.").await;
    page.until("it is over", "return all('.stop').length === 0").await;
    // Each page begins with a result whose call is on the previous page.
    back_with(&page, &cut(2, "window.held = false")).await;
    page.sees("The end.").await;
    page.until("both calls", "return all('.call').length === 2").await;
    let results = "document.querySelectorAll('details.call:not([open])').forEach((one) => (one.open = true));\
        return document.querySelectorAll('.call .result').length === 2";
    page.until("both results", results).await;
    page.ends().await;
}

#[tokio::test]
async fn a_page_before_that_cannot_be_read_says_so_and_is_read_when_asked() {
    let server = scripted(vec![Turn::Say("First answer."), Turn::Say("Second answer.")]);
    let page = answered_twice(&server).await;
    back_with(&page, &cut(2, REFUSED)).await;
    page.sees("Cannot load older messages: not at this moment").await;
    assert_eq!(page.number_of(".transcript .spinner").await, 0);
    page.run("window.held = false", vec![]).await;
    page.press("Try again").await;
    page.sees("First answer.").await;
    page.misses("Cannot load older messages").await;
    page.ends().await;
}

#[tokio::test]
async fn a_conversation_that_could_not_be_opened_is_opened_when_asked() {
    let server = scripted(vec![Turn::Say("First answer.")]);
    let page = Page::signed_in(&server).await;
    page.say("One.").await;
    page.sees("First answer.").await;
    // Longer than the page waits before an automatic retry.
    let busy = "const answer = { status: 429, detail: 'too much at once', retry_after: 600 };
        if (window.held === false || !/threads\\/[^/?]+$/.test(url)) return real();
        return Response.json(answer, { status: 429, headers: { 'content-type': 'application/problem+json' } })";
    back_with(&page, busy).await;
    page.sees("Cannot load this conversation").await;
    page.sees("too much at once").await;
    page.run("window.held = false", vec![]).await;
    page.press("Try again").await;
    page.sees("First answer.").await;
    page.ends().await;
}

#[tokio::test]
async fn a_tab_bears_the_title_of_a_conversation_that_the_list_does_not_have() {
    let server = scripted(vec![Turn::Say("First answer.")]);
    let page = Page::signed_in(&server).await;
    page.say("Of pears.").await;
    page.sees("First answer.").await;
    page.write("[data-key=search]", "what no conversation has").await;
    page.until("it is not in the list", "return all('.history .thread').length === 0").await;
    page.until("its title", "return document.title === 'Of pears. · Windlass'").await;
    page.ends().await;
}

#[tokio::test]
async fn a_message_of_another_day_bears_its_date() {
    let server = scripted(vec![Turn::Say("First answer."), Turn::Say("Second answer.")]);
    let page = answered_twice(&server).await;
    let older = "if (!url.includes('/messages?')) return real();
        const page = await (await real()).json();
        page.data[0].at = Date.UTC(2020, 1, 3, 12);
        return Response.json(page)";
    back_with(&page, older).await;
    page.sees("Second answer.").await;
    let dated = "return [...document.querySelectorAll('.entry.user time')].map((one) => one.innerText.includes('2020'))";
    page.shows(dated, vec![], json!([true, false])).await;
    page.ends().await;
}

/// The text of an event's note.
const SAID: &str =
    "return import('/ui/-/app/state/entry.js').then(({ Entry }) => Entry.remark(arguments[0]).text)";

#[tokio::test]
async fn a_change_of_the_model_says_why() {
    let server = crate::http::Server::start(&[]);
    let page = Page::signed_in(&server).await;
    let event = json!({"type": "model.switched", "seq": 3, "run": "run_1", "model": "own/second", "reason": "`own/first` failed: it is not there"});
    let said = page.run(SAID, vec![event]).await;
    assert_eq!(said, "Model switched to own/second (`own/first` failed: it is not there)");
    page.ends().await;
}
