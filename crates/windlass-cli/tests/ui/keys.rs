//! Single letters answer the focused interrupt, and the focus then moves to the next element.

use serde_json::json;
use thirtyfour::prelude::*;

use super::page::Page;
use super::{asked, otherwise, scripted, write};
use crate::cli::model::Turn;
use crate::http::Server;

/// The index of the focused interrupt.
const HELD: &str = "return all('.ask').indexOf(document.activeElement)";
/// Whether the focus is where the user continues after the last interrupt.
const AT_FIELD: &str = "return matchMedia('(hover: hover)').matches ? document.activeElement.dataset.key === 'composer' : document.activeElement.tagName === 'H1'";

/// A page with two open calls; the submitted answers are in `window.answers`.
async fn two(page: &Page) {
    page.sees("2 calls need approval: Write").await;
    page.until("each in its card", "return all('.call .ask').length === 2 && all('.ask').length === 2").await;
    let hear = "if (url.endsWith('/answer')) (window.answers ??= []).push(JSON.parse(options.body).answer.kind); return real()";
    otherwise(page, hear).await;
}

fn two_writers() -> Server {
    scripted(vec![Turn::Call(vec![write("a.md"), write("b.md")]), Turn::Say("All is settled.")])
}

#[tokio::test]
async fn letters_answer_the_call_that_has_the_focus_and_no_other() {
    let server = two_writers();
    let page = asked(&server).await;
    two(&page).await;
    // The user clicks into the conversation and types.
    page.run("document.querySelector('.transcript').focus()", vec![]).await;
    page.types("also add").await;
    assert_eq!(
        page.run("return [window.answers ?? [], all('.ask').length, all('[name=reason]').length]", vec![])
            .await,
        json!([[], 2, 0])
    );
    for (keys, at) in [("w", 0), ("j", 1), ("j", 1), ("k", 0), ("k", 0), ("j", 1), ("w", 0), ("j", 1)] {
        page.types(keys).await;
        assert_eq!(page.run(HELD, vec![]).await, at, "{keys}");
    }
    // The letter is repeated at once, after the focus has moved to the other call.
    let again = "document.addEventListener('focusin', (event) => event.target.matches('.ask') && event.target.dispatchEvent(new KeyboardEvent('keydown', { bubbles: true, key: 'a' })))";
    page.run(again, vec![]).await;
    page.types("a").await;
    page.until(
        "the other has the focus",
        "return all('.ask').length === 1 && document.activeElement === all('.ask')[0]",
    )
    .await;
    page.shows("return window.answers", vec![], json!(["approve"])).await;
    page.ends().await;
}

#[tokio::test]
async fn a_call_is_denied_by_keys_and_the_focus_moves_to_the_field() {
    let server = two_writers();
    let page = asked(&server).await;
    two(&page).await;
    page.run("document.activeElement.blur()", vec![]).await;
    page.types("wd").await;
    page.until("the reason", "return document.activeElement.name === 'reason'").await;
    page.types("no d and no a").await;
    page.types(Key::Enter + "").await;
    page.until("the other", "return all('.ask').length === 1 && document.activeElement === all('.ask')[0]")
        .await;
    let deny = "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { bubbles: true, key: 'd' })); return document.activeElement.name === 'reason'";
    page.until("a letter counts again", deny).await;
    page.types(Key::Enter + "").await;
    page.until("the field", AT_FIELD).await;
    page.shows("return window.answers", vec![], json!(["deny", "deny"])).await;
    page.sees("All is settled.").await;
    page.ends().await;
}

#[tokio::test]
async fn the_focus_goes_into_what_opens_in_a_card_and_back() {
    let server = two_writers();
    let page = asked(&server).await;
    two(&page).await;
    for (name, field) in [("Edit…", "v.file_path"), ("Deny…", "reason"), ("Always allow…", "which")] {
        page.press(name).await;
        page.until_of(
            "the first field",
            "return document.activeElement.name === arguments[0]",
            vec![field.into()],
        )
        .await;
        page.press("Back").await;
        page.until_of(
            "the button",
            "return named(document.activeElement) === arguments[0]",
            vec![name.into()],
        )
        .await;
    }
    page.press("Approve").await;
    page.until(
        "the other call",
        "return all('.ask').length === 1 && document.activeElement === all('.ask')[0]",
    )
    .await;
    page.press("Approve").await;
    page.until("the field", AT_FIELD).await;
    page.ends().await;
}

#[tokio::test]
async fn the_focus_is_in_the_field_when_all_calls_are_answered_at_once() {
    let server = two_writers();
    let page = asked(&server).await;
    page.press("Approve all").await;
    page.sees("All is settled.").await;
    page.until("the field", AT_FIELD).await;
    page.ends().await;
}

#[tokio::test]
async fn the_second_click_of_two_answers_nothing_else() {
    let server = two_writers();
    let page = asked(&server).await;
    two(&page).await;
    // The second click arrives when the other call has moved to the position of the first one.
    let twice = "const [first, second] = all('.ask [data-key=approve]'); const click = (on, detail) => on.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true, detail }));\
        click(first, 1); click(second, 2); return window.answers.length";
    assert_eq!(page.run(twice, vec![]).await, 1);
    page.until("one is left", "return all('.ask').length === 1").await;
    page.press("Approve").await;
    page.sees("All is settled.").await;
    page.ends().await;
}
