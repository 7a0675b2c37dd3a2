//! Notes in a reloaded conversation: how its runs ended, and how long they took.

use serde_json::json;

use super::page::Page;
use super::{scripted, write};
use crate::cli::model::Turn;

/// The notes beside the messages, with their tones.
const NOTES: &str = "return all('.note').map((one) => `${one.dataset.tone}: ${one.innerText}`)";

#[tokio::test]
async fn a_run_that_failed_without_a_word_says_why_after_a_reload() {
    let server = scripted(vec![Turn::Say("First answer."), Turn::Refuse("no such key here")]);
    let page = Page::signed_in(&server).await;
    page.say("One.").await;
    page.sees("First answer.").await;
    page.say("Two.").await;
    page.until("it says why", "return all('.note[data-tone=error]').length === 1").await;
    let live = page.run(NOTES, vec![]).await;
    let last = live.as_array().unwrap().last().unwrap().as_str().unwrap().to_owned();
    assert!(last.starts_with("error: ") && last.len() > 20, "{live}");
    page.driver.refresh().await.unwrap();
    page.sees("Two.").await;
    page.until("it says why again", "return all('.note[data-tone=error]').length === 1").await;
    let again = page.run(NOTES, vec![]).await;
    assert_eq!(again.as_array().unwrap().last().unwrap(), &last, "{live} {again}");
    let below = "const own = all('.note[data-tone=error]')[0].getBoundingClientRect().top;\
        return own > all('.entry.user')[1].getBoundingClientRect().bottom";
    assert_eq!(page.run(below, vec![]).await, true, "it stands under the question");
    page.ends().await;
}

#[tokio::test]
async fn a_run_that_was_stopped_while_it_asked_says_so_after_a_reload() {
    let server = scripted(vec![Turn::Call(vec![write("a.md")]), Turn::Say("Never.")]);
    let page = super::asked(&server).await;
    page.press("Stop").await;
    page.sees("Stopped.").await;
    page.driver.refresh().await.unwrap();
    page.sees("Write it.").await;
    page.sees("Stopped.").await;
    page.until("once", "return all('.note').length === 1").await;
    page.ends().await;
}

#[tokio::test]
async fn the_live_region_announces_new_events_only() {
    let server = scripted(vec![
        Turn::Say("First answer."),
        Turn::Call(vec![write("a.md")]),
        Turn::Say("It is written."),
        Turn::Refuse("no such key here"),
    ]);
    let page = Page::signed_in(&server).await;
    let told = "return document.querySelector('[data-key=told]').innerText.includes(arguments[0])";
    let says = async |words: &str| page.until_of(words, told, vec![words.into()]).await;
    page.say("One.").await;
    page.sees("First answer.").await;
    page.say("Two.").await;
    says("Input needed: Allow Write to create a.md?").await;
    page.press("Approve").await;
    page.sees("It is written.").await;
    says("The run is done.").await;
    page.say("Three.").await;
    says("The run failed").await;
    page.driver.refresh().await.unwrap();
    page.sees("Three.").await;
    let silent = "return document.querySelector('[data-key=told]').innerText === '' && document.querySelector('.transcript [role=log], .transcript [aria-live]') === null";
    page.until("what was there is not told", silent).await;
    let region = "const own = document.querySelector('.transcript'); return own.getAttribute('role') === 'region' && own.getAttribute('aria-label') !== ''";
    page.until("it has a name", region).await;
    page.ends().await;
}

#[tokio::test]
async fn repeated_events_are_announced_each_time() {
    let calls = ["a.md", "b.md"].map(|path| Turn::Call(vec![write(path)]));
    let [one, other] = calls;
    let says = ["First answer.", "Second answer.", "Third answer."].map(Turn::Say);
    let server = scripted(says.into_iter().chain([one, other, Turn::Say("It is written.")]).collect());
    let page = Page::signed_in(&server).await;
    page.say("One.").await;
    page.sees("First answer.").await;
    // A screen reader announces text that is added to the region, even if the text is the same.
    let hear = "window.heard = [];\
        new MutationObserver((all) => all.forEach((one) => one.addedNodes.forEach((node) => window.heard.push(node.textContent))))\
            .observe(document.querySelector('[data-key=told]'), { childList: true, subtree: true, characterData: true })";
    page.run(hear, vec![]).await;
    let heard = "return window.heard.length === arguments[0]";
    for number in [1, 2] {
        page.say("Go on.").await;
        page.until_of("it has answered", heard, vec![number.into()]).await;
    }
    page.say("Write it.").await;
    for number in [3, 4] {
        page.until_of("it asks", heard, vec![number.into()]).await;
        page.press("Approve").await;
    }
    page.until_of("it has answered", heard, vec![5.into()]).await;
    let asks = |file: &str| format!("Input needed: Allow Write to create {file}?");
    let done = "The run is done.";
    page.shows("return window.heard", vec![], json!([done, done, asks("a.md"), asks("b.md"), done])).await;
    page.ends().await;
}
